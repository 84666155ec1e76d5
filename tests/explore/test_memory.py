"""What a parameter costs and whether it fits: drawn and said as the formulas have it."""

import pytest
from charts import boxes, drawn, outside, said

from mathlib import specs
from mathlib.explore import memory
from mathlib.memory import fit, precision
from mathlib.show import says
from mathlib.show.experiments import find


def shown(name, **values):
    return find(name).run(values)


def bars(html):
    """Length of each bar, by its label."""
    wide: dict[str, float] = {}
    for hint, (_, _, width, _) in boxes(drawn(html)).items():
        label = hint.rsplit(",", 1)[0]
        wide[label] = wide.get(label, 0) + width
    return wide


def test_recipes_are_as_long_as_their_bytes_a_parameter():
    wide = bars(shown("recipes"))
    assert len(wide) == len(memory.RECIPES)
    for name, (label, width) in zip(memory.RECIPES, wide.items(), strict=True):
        recipe = memory.in_a_step(name)
        each = precision.bytes_per_parameter(recipe)
        assert any("gradients" in part for part in each)
        assert label == f"{each.total:.3g}: {recipe.title}" and "without" not in label
        assert width / wide["16: Adam, fp32"] == pytest.approx(each.total / 16, abs=0.003)


@pytest.mark.parametrize("gradients", [True, False])
def test_recipes_stand_by_their_bytes(gradients):
    sizes = [float(label.split(":")[0]) for label in bars(shown("recipes", gradients=gradients))]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


def test_as_many_recipes_fit_as_are_not_crossed_out():
    for millions in (1000, 8000, 64000):
        html = shown("recipes", millions=millions)
        over = said(drawn(html)).count("over the limit")
        assert f">{len(memory.RECIPES) - over} of {len(memory.RECIPES)} recipes keep" in html


def test_without_gradients_the_bars_are_what_is_printed_without_them():
    for name, label in zip(memory.RECIPES, bars(shown("recipes", gradients=False)), strict=True):
        each = precision.bytes_per_parameter(name)
        kept = sum(each.amount(part) for part in each if "gradients" not in part)
        assert label.startswith(f"{kept:.3g}: ")


def test_gradients_are_drawn_only_where_they_are_counted():
    drawn_parts = [
        {hint.rsplit(",", 1)[1].split(":")[0].strip() for hint in boxes(drawn(html))}
        for html in (shown("recipes"), shown("recipes", gradients=False))
    ]
    assert drawn_parts[0] - drawn_parts[1] == {"gradients", "main gradients"}


def test_the_bar_of_one_device_is_what_fit_says():
    layout = specs.Layout(data=8)
    options = {"recipe": "mixed-adam", "attention": "flash", "dropout": False}
    needed = fit.training("llama2-7b", layout, tokens=4096, **options)
    html, told = shown("memory"), fit.fits(needed, specs.find_device("a100-80gb"))
    assert not told and "<b>does not fit</b>" in html and needed.title in html
    sizes = (told.needed, told.memory, told.needed - told.memory)
    assert "{} of {}, {} too much.".format(*map(says.size, sizes)) in html
    wide = {hint.split(", ")[1].split(":")[0]: b[2] for hint, b in boxes(drawn(html)).items()}
    for name, width in wide.items():
        share = width / wide["weights"]
        assert share == pytest.approx(needed.amount(name) / needed.amount("weights"), abs=0.01)


def test_sharding_brings_it_below_the_limit():
    assert "over the limit" in shown("memory") and "over the limit" not in shown("memory", zero=3)


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("pipeline", [1, 4])
def test_nothing_leaves_the_picture(zero, recompute, pipeline):
    html = shown("memory", zero=zero, recompute=recompute, data=64, tensor=2, pipeline=pipeline)
    assert not outside(drawn(html))


def test_a_layout_that_cannot_be_is_a_result_in_words():
    assert "Not possible: " in shown("memory", model="gpt2-xl", tensor=8)


@pytest.mark.parametrize("device", memory.DEVICES)
def test_the_limit_is_what_the_device_reports(device):
    chip = specs.find_device(device)
    room = says.size(chip.room)
    assert f"{chip.title}: {room}" in shown("memory", device=device)
    assert f"within {room}" in shown("recipes", device=device)
