"""What one slow part costs all who wait for it.

N ranks · v_i speed of rank i, things a second · m micro_batches
A synchronous step ends when the last rank does.  `events` follows each message; these are the
laws that come out where ranks have equal work.
"""

from collections.abc import Sequence

from mathlib.checks import fraction, listed, non_negative, positive, whole


def used(*, speeds: Sequence[float]) -> float:
    """The share of a cluster's speed that equal shares of work use: N min v / sum v.

    Chapter: unequal (eq-unequal-used)
    """
    rates = [positive("speeds", speed) for speed in listed("speeds", speeds)]
    return len(rates) * min(rates) / sum(rates)


def some_slow(*, ranks: int, chance: float) -> float:
    """The chance that a step waits for a slow rank: 1 - (1-chance)^N.

    Chapter: unequal (eq-unequal-some)
    """
    return 1 - (1 - fraction("chance", chance)) ** whole("ranks", ranks)


def step(*, ranks: int, chance: float, times: float) -> float:
    """How many times longer a step takes on average, when a rank takes so many times longer now and
    then: 1 + (times - 1) (1 - (1-chance)^N).

    Chapter: unequal (eq-unequal-some)
    """
    factor = positive("times", times)
    return 1 + (factor - 1) * some_slow(ranks=ranks, chance=chance)


def flushed(*, seconds: Sequence[float], micro_batches: int) -> float:
    """A pipeline of unequal stages: sum t + (m-1) max t, t a stage's forward and backward of a
    micro-batch, with messages that cost nothing.

    Chapter: unequal (eq-unequal-pipeline)
    """
    each = [non_negative("seconds", one) for one in listed("seconds", seconds)]
    m = whole("micro_batches", micro_batches)
    return sum(each) + (m - 1) * max(each)
