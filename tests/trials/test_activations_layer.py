"""A layer's graph, its changes from GPT-3 to Llama, and prices: each against a sum by hand."""

import pytest

from mathlib.memory import kept
from mathlib.specs import find_model
from mathlib.trials import activations_layer


def test_the_graph_saves_the_34_and_the_5():
    rows, small = activations_layer.graph()
    assert [row[-1] for row in rows] == [row[-2] for row in rows]
    assert sum(row[-1] for row in rows) == 34 + 5 * 4 and 0 < small < 0.02


def test_changes_from_gpt3_to_llama():
    assert [*activations_layer.modern().values()] == [114, 64, 32, 44, 41]
    assert activations_layer.in_units("llama3-8b") == 41


def test_prices_by_hand():
    rows = {what: (size, price) for what, size, price in activations_layer.prices("gpt3-175b")}
    assert rows["scores"] == ("32", "128") and rows["queries"] == ("2", "12,288")
    assert rows["all that is no matmul"] == ("62", "0")
    assert activations_layer.prices("llama3-8b")[-1] == ["attention's result", "2", "16,384"]


def test_a_policy_in_bytes_flop_and_time():
    assert activations_layer.told("llama3-8b", "none") == ("44.0 GB", "0%", "0.0%")
    assert activations_layer.told("llama3-8b", "matmuls") == ("24.7 GB", "0%", "1.2%")
    assert activations_layer.told("llama3-8b", "full") == ("2.1 GB", "26%", "27.7%")
    assert activations_layer.more("gpt3-175b", "selective") == pytest.approx(0.0045, rel=0.01)
    found = activations_layer.more("korthikanti-22b", "selective", "a100-80gb", 156e12)
    assert found == pytest.approx(0.0437, abs=1e-4)


@pytest.mark.parametrize("name", ["gpt3-175b", "llama3-8b"])
def test_corners_are_best_choices(name):
    model = find_model(name)
    whole = activations_layer.in_units(name) * model.context * model.width * model.layers
    step = 3 * model.layers * kept.forward_flop(name)
    for size, again in activations_layer.corners(name):
        best = kept.best(name, budget=size / 100 * whole * (1 + 1e-9))
        assert 100 * best.flop / step == pytest.approx(again, abs=1e-9)
    assert activations_layer.point(name, "full")[0] == pytest.approx(
        activations_layer.corners(name)[0]
    )


def test_links_by_hand():
    rows = activations_layer.links()
    assert rows[0] == ["Llama 3 8B", "98", "49", "133", "47%", "37%", "100%"]
    assert rows[1][1] == f"{400e12 / 8192 / 1e9:.0f}"
