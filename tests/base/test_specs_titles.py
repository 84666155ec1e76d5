"""What people call a model, a device, a cluster: everywhere a name, nowhere the same one twice."""

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import flops, params
from mathlib.memory import fit
from mathlib.show.experiments import registry

KINDS = ("models", "devices", "clusters", "recipes")


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_has_a_title_of_its_own(kind):
    rows = specs.table(kind)
    titles = [row["title"] for row in rows.values()]
    assert all(title.strip() == title and title not in rows for title in titles)
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", specs.table("devices"))
def test_a_devices_title_tells_the_memory_it_is_sold_with(name):
    device = specs.find_device(name)
    assert f"{device.memory / 1e9:g} GB" in device.title or name == "gb300"


def test_a_title_is_found_with_its_model_device_cluster():
    assert specs.find_model("llama2-7b").title == "Llama 2 7B"
    assert specs.find_model("gpt2-xl").title == "GPT-2 XL", "not that of the row it is like"
    assert specs.find_device("a100-80gb").title == "A100 80 GB SXM"
    assert specs.find_cluster("dgx-h100").title == "DGX H100"


def test_a_model_of_ones_own_is_called_by_its_name():
    own = specs.Model("mine", layers=1, width=8, heads=1, vocab=8, context=8)
    assert own.title == "mine" and own.but(layers=2).title == "mine"
    assert own.but(name="yours").title == "yours"
    assert specs.find_model("gpt2").but(layers=2, name="half").title == "half"


def test_sums_are_about_a_title():
    for parts in (params.count("gpt2-xl"), flops.training("gpt2-xl"), fit.training("gpt2-xl")):
        assert "GPT-2 XL" in parts.title and "gpt2-xl" not in parts.title
    assert "A100 80 GB SXM reports" in str(fit.fits(60e9, "a100-80gb"))


def test_no_menu_shows_a_key():
    keys = {key for kind in KINDS for key in specs.table(kind)}
    for one in registry().values():
        for control in one.controls:
            for label, value in getattr(control, "options", ()):
                assert label not in keys, f"{one.id}, {control.name}: {label}"
                assert one.long or value not in keys or label in one.html({control.name: value})


def test_memory_offers_an_h100():
    menu = next(c for c in registry()["memory"].controls if c.name == "device")
    assert ("H100 80 GB SXM", "h100-sxm") in menu.options


def test_a_menu_of_something_unknown_is_refused():
    assert specs.titled("models", ["gpt2", "llama2-7b"])[1] == ("Llama 2 7B", "llama2-7b")
    with pytest.raises(InputError, match="names = 'llama9'"):
        specs.titled("models", ["llama9"])
