"""How unevenly experts are visited, and what that costs.

Ranks share the experts, as many on each.
A layer's all-to-all lets every rank wait for the one with the most visits.
"""

from collections.abc import Sequence

from mathlib.checks import InputError, divides, listed, non_negative


def by_rank(*, visits: Sequence[float], expert: int) -> list[float]:
    """Visits that each rank computes: the sum over its neighbouring experts.

    Chapter: parallel3d
    """
    given = [non_negative("visits", c) for c in listed("visits", visits)]
    many = len(given) // divides("expert", expert, "experts", len(given))
    return [float(sum(given[first : first + many])) for first in range(0, len(given), many)]


def imbalance(*, loads: Sequence[float]) -> float:
    """The most over the mean, max_r c_r / mean_r c_r: 1 is even, e if one rank gets all; the factor
    by which an expert layer takes longer (Lepikhin et al. 2020, section 2.2).

    Chapter: parallel3d
    """
    given = [non_negative("loads", c) for c in listed("loads", loads)]
    if not any(given):
        raise InputError(f"loads = {given}: expected at least one above 0")
    return max(given) * len(given) / sum(given)


def waiting(*, layers: Sequence[Sequence[float]]) -> float:
    """Share of the ranks' time that they wait for the slowest, layer after layer:
    1 - sum of means / sum of maxima.

    Chapter: parallel3d
    """
    each = [listed("layers", loads) for loads in listed("layers", layers)]
    given = [[non_negative("layers", c) for c in loads] for loads in each]
    if not any(map(any, given)):
        raise InputError(f"layers = {given}: expected at least one load above 0")
    return 1 - sum(sum(c) / len(c) for c in given if c) / sum(max(c, default=0) for c in given)
