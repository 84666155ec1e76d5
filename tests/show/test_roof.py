"""The roof is drawn where its numbers say, and points lie beneath it."""

import pytest
from charts import drawn, said, unreadable, words

from mathlib.checks import InputError
from mathlib.show.roof import roof_chart, roof_html

GROUPS = {"mlp": [("up", 500.0, 1e14)], "norms": [("norm", 2.0, 4e12)]}
RATES = {"peak": 1e14, "bandwidth": 2e12}


def test_everything_is_said_and_written():
    shown = roof_chart(GROUPS, **RATES, title="A layer")
    chart = drawn(shown)
    assert "Ridge at 50 FLOP a byte, peak 100 TFLOP/s" in said(chart)
    assert "norm: 4 TFLOP/s at 2 FLOP a byte" in said(chart)
    assert {"ridge: 50", "100 TFLOP/s", "mlp", "norms"} <= set(words(chart))
    assert not unreadable(shown._repr_html_()) and "mlp, norms" in repr(shown)


def test_a_point_without_flop_has_no_place():
    with pytest.raises(InputError, match="look-up lies at 0"):
        roof_html({"embedding": [("look-up", 0, 1)]}, **RATES, title="A layer")
