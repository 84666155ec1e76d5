"""Two bars an operation, and the longer one is its time."""

from charts import boxes, drawn, said, words

from mathlib.compute.roofline import Operation
from mathlib.show.schemes import roofline

WORK = [
    Operation("up", "mlp", flop=4e12, moved=1e9),
    Operation("norm", "norms", flop=1e9, moved=2e9, matmul=False),
]


def test_the_longer_bar_decides():
    shown = roofline.larger(WORK, peak=1e12, bandwidth=1e9, title="A layer")
    chart = drawn(shown)
    assert "The longer bars together: 6 s" in words(chart)
    assert "up: arithmetic 4 s, memory 1 s. norm: arithmetic 0 s, memory 2 s." in said(chart)
    found = boxes(chart)
    assert found["up, arithmetic: 4 s"][2] > 3.9 * found["up, memory traffic: 1 s"][2]
    assert repr(shown) == "Bound by memory: norm."
