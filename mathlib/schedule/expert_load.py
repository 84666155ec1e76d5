"""How unevenly experts are visited, and what that costs.

E experts of a layer · E* those that a token visits; ranks share them, as many on each
A layer's all-to-all lets every rank wait for the one with the most visits.
"""

import math
import random
from collections.abc import Sequence

from mathlib.checks import InputError, divides, listed, non_negative, whole


def by_rank(*, visits: Sequence[float], expert: int) -> list[float]:
    """Visits that each rank computes: the sum over its neighbouring experts.

    Chapter: experts
    """
    given = [non_negative("visits", c) for c in listed("visits", visits)]
    many = len(given) // divides("expert", expert, "experts", len(given))
    return [float(sum(given[first : first + many])) for first in range(0, len(given), many)]


def imbalance(*, loads: Sequence[float]) -> float:
    """The most over the mean, max_r c_r / mean_r c_r: 1 is even, e if one rank gets
    all; the factor by which an expert layer takes longer (Lepikhin et al. 2020,
    section 2.2).

    Chapter: experts (eq-imbalance)
    """
    given = [non_negative("loads", c) for c in listed("loads", loads)]
    if not any(given):
        raise InputError(f"loads = {given}: expected at least one above 0")
    return max(given) * len(given) / sum(given)


def waiting(*, layers: Sequence[Sequence[float]]) -> float:
    """Share of the ranks' time that they wait for the slowest, layer after layer:
    1 - sum of means / sum of maxima.

    Chapter: experts (eq-expert-waiting)
    """
    each = [listed("layers", loads) for loads in listed("layers", layers)]
    given = [[non_negative("layers", c) for c in loads] for loads in each]
    if not any(map(any, given)):
        raise InputError(f"layers = {given}: expected at least one load above 0")
    return 1 - sum(sum(c) / len(c) for c in given if c) / sum(max(c, default=0) for c in given)


def ranks_visited(*, experts: int, active: int, ranks: int) -> float:
    """Ranks that a token visits if it chooses evenly: none of its E* experts is on a
    given rank in C(E - E/ranks, E*) of C(E, E*) choices.  To its own rank nothing is
    sent.

    Chapter: experts (eq-ranks-visited)
    """
    E, visited = _experts(experts, active)
    own = E // divides("ranks", ranks, "experts", E)
    return E // own * (1 - math.comb(E - own, visited) / math.comb(E, visited))


def _experts(experts: int, active: int) -> tuple[int, int]:
    E, visited = whole("experts", experts), whole("active", active)
    if visited > E:
        raise InputError(f"active = {visited}: expected at most experts = {E}")
    return E, visited


def dropped(*, visits: Sequence[float], room: float) -> float:
    """Visits that find no room where each expert takes so many: the sum of max(0, visits - room).

    Chapter: experts (eq-dropped)
    """
    given = [non_negative("visits", c) for c in listed("visits", visits)]
    most = non_negative("room", room)
    return math.fsum(max(0.0, c - most) for c in given)


def drawn(
    *,
    tokens: int,
    experts: int,
    active: int,
    skew: float,
    seed: int = 0,
) -> list[int]:
    """Visits of each expert, of a made-up router: a token's score of expert i is
    -skew ln(i+1) and Gumbel noise, and it visits the best; so its first choice is i
    in proportion to i^-skew.

    Chapter: experts
    """
    E, visited = _experts(experts, active)
    score = [-non_negative("skew", skew) * math.log(i + 1) for i in range(E)]
    draw, visits = random.Random(whole("seed", seed, least=0)), [0] * E
    for _ in range(whole("tokens", tokens)):
        noisy = [s - math.log(-math.log(draw.random() or 0.5)) for s in score]
        for i in sorted(range(E), key=noisy.__getitem__)[-visited:]:
            visits[i] += 1
    return visits
