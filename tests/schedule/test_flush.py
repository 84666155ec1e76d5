"""Fill and drain, and one forward one backward, against lists made by hand and torch's own."""

import pytest

from mathlib.schedule import check, flush
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times


def said(schedule) -> list[str]:
    """Each stage's actions as people write them: F0 F1 B0."""
    return [" ".join(f"{a.kind}{a.micro_batch}" for a in stage) for stage in schedule.actions]


def test_the_orders_by_hand() -> None:
    assert said(flush.gpipe(stages=2, micro_batches=3)) == ["F0 F1 F2 B0 B1 B2"] * 2
    assert said(flush.one_forward_one_backward(stages=3, micro_batches=4)) == [
        "F0 F1 F2 B0 F3 B1 B2 B3",
        "F0 F1 B0 F2 B1 F3 B2 B3",
        "F0 B0 F1 B1 F2 B2 F3 B3",
    ]
    few = flush.one_forward_one_backward(stages=4, micro_batches=2)
    assert said(few)[0] == "F0 F1 B0 B1" and said(few)[2] == "F0 F1 B0 B1"


@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("m", [1, 2, 3, 8, 17])
def test_blocking_sends_end_with_one_receive_ahead(p, m) -> None:
    for order in (flush.gpipe, flush.one_forward_one_backward):
        schedule = order(stages=p, micro_batches=m)
        assert check.receives_to_post(schedule) == 1
        assert {a.chunk for s in range(p) for a in schedule.actions[s]} == set(range(p))


def test_alternate_takes_what_there_is() -> None:
    assert flush.alternate("abc", "xyz", ahead=1) == list("abxcyz")
    assert flush.alternate("abc", "xyz", ahead=0) == list("axbycz")
    assert flush.alternate("abc", "xyz", ahead=9) == list("abcxyz")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_further_ahead_holds_more_and_hides_messages(times):
    one = flush.one_forward_one_backward(stages=4, micro_batches=32, ahead=times)
    line = simulate(one, Times(message=0.5))
    assert [line.peak(s) for s in range(4)] == [times * (3 - s) + 1 for s in range(4)]
    drained = simulate(flush.gpipe(stages=4, micro_batches=32), Times(message=0.5)).total
    assert (line.total == drained) == (times > 1)
