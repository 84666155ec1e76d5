"""PipeDream and 2BW have the order of 1F1B, and weights that change on the way."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import flush


def test_the_order_is_that_of_1f1b() -> None:
    plain = flush.one_forward_one_backward(stages=3, micro_batches=6)
    stashed = flush.pipedream(stages=3, micro_batches=6)
    double = flush.two_versions(stages=3, micro_batches=6)
    assert stashed.actions == double.actions == plain.actions
    assert (stashed.weights, stashed.accumulate) == ("stash", 1)
    assert (double.weights, double.accumulate) == ("double", 3)
    assert plain.accumulate == 6
    assert flush.two_versions(stages=3, micro_batches=8, accumulate=4).accumulate == 4


def test_a_step_shorter_than_the_pipeline_is_refused() -> None:
    with pytest.raises(InputError, match="accumulate = 2: .* stages = 3 in flight; .*least 3"):
        flush.two_versions(stages=3, micro_batches=6, accumulate=2)
    with pytest.raises(InputError, match="micro_batches = 7: expected a multiple of accumulate"):
        flush.two_versions(stages=3, micro_batches=7)
