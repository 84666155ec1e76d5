"""What the experiment says is what the formulas give."""

import pytest
from charts import drawn, said, unreadable

from mathlib import specs
from mathlib.compute import operations, roofline
from mathlib.explore.roofline import DEVICES, MODELS, points
from mathlib.show.experiments import find

ROOF = find("roof")


@pytest.mark.parametrize("model", MODELS)
def test_every_model_stands_beneath_the_roof_of_every_device(model):
    for device in DEVICES:
        html = ROOF.run({"model": model, "device": device})
        assert not unreadable(html) and "Not possible" not in html


def test_the_numbers_are_those_of_the_formulas():
    chip = specs.find_device("h100-sxm")
    asked = {"fused": False, "attention": "flash", "causal": True}
    done = operations.layer("llama3-8b", tokens=1024, **asked)
    rates = {"peak": chip.half, "bandwidth": chip.memory_bandwidth}
    seconds = roofline.time(done, **rates).total
    share = roofline.totals(done).total / chip.half / seconds
    html = ROOF.run()
    assert f"a utilisation of at most <b>{share:.0%}</b>" in html
    assert "Ridge at 295 FLOP a byte" in said(drawn(html))


def test_a_single_token_is_bound_by_memory_and_fusing_helps():
    assert "at most <b>0%</b>" in ROOF.run({"tokens": 1})
    plain, fused = (ROOF.run({"fused": way}) for way in (False, True))
    assert plain != fused


def test_points_lie_on_the_roof():
    (group,) = points(
        [roofline.Operation("up", "mlp", flop=100.0, moved=10.0)], peak=30.0, bandwidth=2.0
    ).values()
    assert group == [("up", 10.0, 20.0)]


def test_what_the_chapter_asks_of_a_small_and_a_large_model():
    for model, share in {"gpt2": 25, "gpt3-175b": 89}.items():
        html = ROOF.run({"model": model, "attention": "standard"})
        assert f"at most <b>{share}%</b>" in html
