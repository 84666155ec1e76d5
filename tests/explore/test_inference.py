"""What fits and how fast it is, as the formulas have it."""

import math
import re

import pytest
from charts import bold, marked, struck, unreadable, widths

from mathlib import specs
from mathlib.compute import params
from mathlib.explore import inference as explored
from mathlib.memory import decode_time, inference
from mathlib.show import says
from mathlib.show.experiments import find

DECODE = find("decode")


def test_seventy_billion_in_int8_fit_and_in_sixteen_bits_do_not():
    assert "It fits" in DECODE.run({})
    assert "It does not fit" in DECODE.run({"weights": 2.0})
    free = specs.find_device("a100-80gb").room - params.count("llama2-70b").total
    free -= inference.kv_cache("llama2-70b", tokens=4096).total
    assert f"{says.size(free)} stay free" in DECODE.run({})


def test_the_sentence_is_the_step():
    step = decode_time.step("llama2-70b", "a100-80gb", past=4096, bytes_per_parameter=1).total
    assert f"at least {says.time(step)}" in DECODE.run({})
    each = re.search(r"<b>([\d.]+) tokens a second", DECODE.run({}))
    assert each and float(each[1]) == pytest.approx(1 / step, abs=0.06)


def test_more_sequences_are_faster_together_and_slower_each():
    points = explored.speeds("llama3-8b", "h100-sxm", [1, 8, 64], past=4096)
    together = [speed for _, speed in points]
    each = [speed / B for B, speed in points]
    assert together == sorted(together) and each == sorted(each, reverse=True)


@pytest.mark.parametrize("sequences", [2**k for k in range(10)])
@pytest.mark.parametrize("past", [128, 4096, 131072])
def test_no_curve_goes_through_a_name_and_each_name_stands_at_its_curve(past, sequences):
    """In the drawing for the desk and in that for the phone."""
    html = DECODE.run({"past": past, "sequences": sequences})
    assert not unreadable(html)
    for chart in widths(html)[2:]:
        assert not struck(chart)
        for name, (left, right, y) in bold(chart).items():
            own = marked(chart)[name]
            assert min(math.dist(p, (min(max(p[0], left), right), y)) for p in own) < 40, name
