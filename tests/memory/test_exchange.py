"""Rows in flight, counted by hand."""

import random

import pytest

from mathlib.memory.exchange import Exchange, Row, _filled


def test_a_row_is_padded_and_cut():
    row = Row(10, 4, 0)
    assert (row.shard, row.padded) == (3, 12)


def test_a_row_is_closed_by_the_tensor_that_fills_it():
    rows = list(_filled([3, 4, 1, 9, 2], ranks=2, element=2, bucket=14))
    assert rows == [Row(7, 2, 1), Row(10, 2, 3), Row(2, 2, 4)]


ROWS = [Row(4, 2, 0), Row(6, 2, 1), Row(10, 2, 2)]


def states(accumulation: bool) -> list[tuple[float, float, float]]:
    way = Exchange(ROWS, [4, 6, 10], 1, element=2, shard_element=4, accumulation=accumulation)
    found = [way.state(0, 0), way.state(1, 0), way.state(1, 1), way.state(2, 1)]
    found += [way.state(2, 1, settling=True), way.state(2, 2), way.state(3, 3), *way.finishing()]
    names = ("gradients", "gradients that wait", "rows in flight")
    return [tuple(one.get(name, 0) for name in names) for one in found]


def test_every_state_of_three_rows():
    assert states(accumulation=False) == [
        (0, 0, 0),
        (0, 8, 0),  # a row's gradients wait
        (0, 0, 16),  # it has left: there, and what arrives
        (0, 12, 16),  # the next waits for its turn
        (8, 12, 16),  # what came for the first is added up
        (8, 0, 24),
        (20, 0, 40),
        (40, 0, 40),  # the end: its piece beside it
    ]


def test_with_accumulation_all_pieces_are_there():
    first, *_, last = states(accumulation=True)
    assert first == (40, 0, 0) and last == (40 + 20, 0, 40)


def test_the_fullest_is_just_before_a_row_leaves():
    way = Exchange(ROWS, [4, 6, 10], 1, element=2, shard_element=4, accumulation=False)
    assert way.fullest(0, 2) == way.state(2, 1, settling=True)
    assert way.fullest(0, 3) == way.state(3, 2, settling=True)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("accumulation", [True, False])
def test_nothing_between_is_fuller_than_the_fullest(whole, accumulation):
    by_chance = random.Random(5)
    for _ in range(40):
        tensors = [by_chance.randint(0, 9) for _ in range(by_chance.randint(1, 12))]
        rows = list(_filled(tensors, ranks=3, element=2, bucket=by_chance.randint(4, 40)))
        way = Exchange(rows, tensors, by_chance.randint(1, 3), 2, 4, accumulation, whole)
        begin, end = sorted(by_chance.randint(0, len(tensors)) for _ in "ab")
        closed = [way.closed(n) for n in range(len(tensors) + 1)]
        steps = [way.state(end, closed[end])]
        for n in range(begin + 1, end + 1):
            if closed[n] > closed[n - 1]:
                steps.append(way.state(n, closed[n - 1], settling=True))
            steps.append(way.state(n, closed[n]))
        assert way.fullest(begin, end) == max(steps, key=lambda one: sum(one.values()))
