"""mathlib models and devices: the rows of the tables in whose name the word occurs."""

import pytest
from command_line import answered, args

from mathlib import specs
from mathlib.checks import InputError
from mathlib.cli import names
from mathlib.compute import params, reported
from mathlib.plan import sweeps


@pytest.mark.parametrize("kind", ["models", "devices"])
def test_a_part_of_a_name_is_enough_and_none_means_all(kind):
    assert names.names_like(kind, None) == list(specs.table(kind))
    first = next(iter(specs.table(kind)))
    assert first in names.names_like(kind, first[:3].upper())
    with pytest.raises(InputError, match="name = 'nosuchname'"):
        names.names_like(kind, "nosuchname")


def test_a_model_comes_with_our_count_and_the_published_one(capsys):
    (found,) = answered("models gpt2-xl", capsys)
    model = specs.find_model("gpt2-xl")
    assert found["parameters"] == params.total(model) and found["width"] == model.width
    assert found["published_parameters"] == model.parameters


def test_every_field_of_a_device_with_a_unit_is_there(capsys):
    found = answered("devices h100-sxm", capsys)
    assert set(names.UNITS) <= set(found["devices"][0]) and found["units"] == names.UNITS


def test_clusters_recipes_and_runs_are_those_of_the_tables(capsys):
    clusters = answered("clusters", capsys)
    assert [one["name"] for one in clusters["clusters"]] == list(specs.table("clusters"))
    recipes = {one["name"]: one for one in answered("recipes", capsys)}
    assert list(recipes) == list(specs.table("recipes"))
    assert recipes["mixed-adam"]["bytes"] == 16 and recipes["adafactor"]["bytes"] is None
    runs = {one["name"]: one for one in answered("runs", capsys)}
    assert list(runs) == reported.names()
    wanted = reported.utilizations(reported.find_run("PaLM 540B"))
    assert runs["PaLM 540B"]["utilization"] == wanted


def test_a_word_of_a_title_is_enough(capsys):
    (found,) = answered("clusters dgx-h100", capsys)["clusters"]
    assert answered('clusters "DGX H100"', capsys)["clusters"] == [found]


def test_prices_come_with_their_day_and_their_source(capsys):
    found = answered("prices", capsys)
    assert found["unit"] == "USD an hour of a device"
    assert [one["name"] for one in found["prices"]] == list(specs.table("prices"))
    names.prices_command(args("prices aws-p5en"))
    out = capsys.readouterr().out
    assert "3.32" in out and "2026-08-06" in out and "source: github.com/dstackai" in out


def test_a_published_layout_is_named_with_its_step(capsys):
    found = answered("layouts llama3-70b", capsys)
    assert [one["name"] for one in found] == ["megatron-llama3-70b", "bridge-llama3-70b"]
    assert found[0]["devices"] == 64 and found[0]["tokens_per_second_each"] == pytest.approx(1621)
    assert found[0]["layout"]["pipeline"] == 8 and found[0]["device"] == "h100-sxm"
    assert len(answered("layouts", capsys)) == len(sweeps.printed())
    with pytest.raises(InputError, match="name = 'nosuchname'"):
        answered("layouts nosuchname", capsys)
