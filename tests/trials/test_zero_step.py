"""One step of ZeRO: its fullest moment, and what prefetch hides."""

import pytest

from mathlib.meters.trace import Event
from mathlib.trials import zero_step


def test_peaks_are_those_of_the_formula_and_the_timeline_is_a_whole_step():
    found = zero_step.peaks()
    assert len(found.pairs) == 6
    for predicted, measured in found.pairs.values():
        assert measured == pytest.approx(predicted, rel=0.03)
    assert [name for _, name in found.marks] == ["forward", "backward", "step"]
    assert found.marks[-1][0] == len(found.rows)


def test_what_was_asked_for_before_the_layer_before_computed():
    def events(ahead):
        for layer in range(4):
            yield Event("all-gather", "communication", 0, layer - ahead, layer + 0.2)
            yield Event("layer", "compute", 0, layer + 0.5, layer + 1)
            yield Event("all-gather", "communication", 1, layer, layer)  # another rank's

    assert [zero_step.asked_early(list(events(ahead))) for ahead in (0, 0.6)] == [0, 3]


def test_the_plan_hides_with_prefetch_and_less_over_a_slower_link():
    hidden = [
        zero_step.planned(prefetch, link).hidden
        for prefetch, link in ((0, zero_step.LINK), (1, zero_step.LINK / 4), (1, zero_step.LINK))
    ]
    assert hidden == sorted(hidden) and hidden[0] < 0.01
