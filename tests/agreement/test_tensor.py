"""Bytes that a cut model sends and keeps: formula, program and system, and as many on every degree
as the law says. Stored outputs of the chapter have degree 4.
"""

import pytest

from mathlib.trials import tensor


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_sends_what_the_formulas_say(ranks):
    for predicted, program, system in tensor.counted(ranks).values():
        assert program == pytest.approx(predicted, rel=1e-12)
        assert system == pytest.approx(program, rel=1e-12)


def test_a_layer_keeps_what_the_formulas_say():
    for predicted, measured in tensor.kept(2).values():
        assert measured == predicted


def test_norms_are_the_same_on_every_rank_though_nobody_sends_them():
    assert tensor.alike(2)
