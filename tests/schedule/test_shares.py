"""Shares of unequal devices, beside all that there are."""

import itertools

import pytest

from mathlib.checks import InputError
from mathlib.schedule import shares


def splits(things, devices):
    return (c for c in itertools.product(range(things + 1), repeat=devices) if sum(c) == things)


@pytest.mark.parametrize("speeds", [(1, 1, 1), (3, 1, 2), (10, 0.5, 1), (1, 2.5)])
def test_by_speed_is_the_best_of_all_splits(speeds):
    for things in (1, 2, 5, 9):
        found = shares.by_speed(things=things, speeds=speeds)
        best = min(shares.slowest(c, speeds=speeds) for c in splits(things, len(speeds)))
        assert sum(found) == things and shares.slowest(found, speeds=speeds) == best


def test_what_a_slow_rank_costs():
    assert shares.by_speed(things=12, speeds=(1, 1, 1, 0.5)) == [4, 4, 3, 1]
    assert shares.slowest([3, 3, 3, 3], speeds=(1, 1, 1, 0.5)) == 6


def test_by_room_gives_all_away_in_proportion():
    assert shares.by_room(numbers=10, rooms=(1, 3)) == [2, 8]  # 2.5 and 7.5
    assert shares.by_room(numbers=7, rooms=(1.0,)) == [7]
    found = shares.by_room(numbers=10**9 + 7, rooms=(80, 80, 40))
    assert sum(found) == 10**9 + 7 and abs(found[0] - 2 * found[2]) <= 2


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: shares.by_speed(things=4, speeds=(1, 0)), "speeds = 0"),
        (lambda: shares.slowest([1], speeds=(1, 2)), "counts = .1.: expected 2"),
        (lambda: shares.by_room(numbers=4, rooms=(-1,)), "rooms = -1"),
    ],
)
def test_refusals(call, named):
    with pytest.raises(InputError, match=named):
        call()
