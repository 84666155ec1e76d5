"""What unequal devices take, so that none waits for another longer than it must.

v_i speed of device i, things a second
"""

import heapq
from collections.abc import Sequence
from itertools import accumulate, pairwise

from mathlib.checks import InputError, listed, positive, whole


def by_speed(*, things: int, speeds: Sequence[float]) -> list[int]:
    """How many of some equal things each device takes: the least max n_i / v_i, one by one to who
    would be ready first.

    Chapter: unequal (eq-unequal-shares)
    """
    rates = [positive("speeds", speed) for speed in listed("speeds", speeds)]
    counts = [0] * len(rates)
    ready = [(1 / rate, -rate, i) for i, rate in enumerate(rates)]
    heapq.heapify(ready)
    for _ in range(whole("things", things)):
        _, _, i = ready[0]
        counts[i] += 1
        heapq.heapreplace(ready, ((counts[i] + 1) / rates[i], -rates[i], i))
    return counts


def slowest(counts: Sequence[int], *, speeds: Sequence[float]) -> float:
    """Seconds until the last device is ready: max n_i / v_i.

    Chapter: unequal
    """
    taken = [whole("counts", count, least=0) for count in listed("counts", counts)]
    rates = [positive("speeds", speed) for speed in listed("speeds", speeds)]
    if len(taken) != len(rates):
        raise InputError(f"counts = {taken}: expected {len(rates)}, one for each of the speeds")
    return max(count / rate for count, rate in zip(taken, rates, strict=True))


def by_room(*, numbers: int, rooms: Sequence[float]) -> list[int]:
    """How many numbers each device keeps, in proportion to its room; whole, and all of them.

    Chapter: unequal
    """
    given = [positive("rooms", room) for room in listed("rooms", rooms)]
    all_of_them, total = whole("numbers", numbers), sum(given)
    cuts = [0, *(round(all_of_them * part / total) for part in accumulate(given))]
    return [b - a for a, b in pairwise(cuts)]
