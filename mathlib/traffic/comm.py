"""Collectives: bytes a rank sends, rounds, and alpha-beta time.

K payload: bytes of the whole buffer (what a rank holds before an all-reduce, after an all-gather)
N ranks · alpha latency of one message, s · W bandwidth of a rank's link in ONE direction, byte/s
g, n ranks inside and across (hierarchical).  time = rounds * alpha + serial / W
NVLink's 900 GB/s adds up both directions: W is 450e9.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, log2, prod
from typing import Any

from mathlib.checks import InputError, listed, non_negative, one_of, positive, whole
from mathlib.parts import Parts


@dataclass(frozen=True)
class Traffic:
    """What an algorithm moves; bytes need not be whole, since K / N is not."""

    rounds: int  # messages one after the other on the longest path
    serial: float  # bytes one after the other on the longest path
    busiest: float  # bytes the busiest rank sends
    total: float  # bytes all ranks send together
    ranks: int

    @property
    def mean(self) -> float:
        """Bytes a rank sends on average."""
        return self.total / self.ranks


def _ring(passes: int) -> Callable[[float, int], Traffic]:
    """Ring of N - 1 rounds a pass, K / N each: one pass scatters the sums or gathers the parts, two
    do both.
    """

    def ring(k: float, n: int) -> Traffic:
        each = passes * k * (n - 1) / n
        return Traffic(passes * (n - 1), each, each, passes * k * (n - 1), n)

    return ring


def _star(passes: int) -> Callable[[float, int], Traffic]:
    """Naive: one rank receives from all, or sends to all, one after the other. In a second pass it
    does the other.
    """
    return lambda k, n: Traffic(
        passes * (n - 1), passes * k * (n - 1), k * (n - 1), passes * k * (n - 1), n
    )


def _gather_star(k: float, n: int) -> Traffic:
    """Naive gather: every rank sends its K / N to the root, one after the other."""
    return Traffic(n - 1, k * (n - 1) / n, k / n if n > 1 else 0, k * (n - 1) / n, n)


def _scatter_star(k: float, n: int) -> Traffic:
    """Naive scatter: the root sends K / N to every other rank, one after the other."""
    return Traffic(n - 1, k * (n - 1) / n, k * (n - 1) / n, k * (n - 1) / n, n)


def _tree_reduce(k: float, n: int) -> Traffic:
    """Binomial tree to the root: every other rank sends its sum once, ceil(log2 N) rounds."""
    return Traffic(ceil(log2(n)), k * ceil(log2(n)), k if n > 1 else 0, k * (n - 1), n)


def _tree_broadcast(k: float, n: int) -> Traffic:
    """Binomial tree from the root: who has the buffer passes it on, ceil(log2 N) rounds."""
    return Traffic(ceil(log2(n)), k * ceil(log2(n)), k * ceil(log2(n)), k * (n - 1), n)


def _tree_all_reduce(k: float, n: int) -> Traffic:
    """Reduce to a root, then broadcast from it: 2 ceil(log2 N) rounds of the whole K."""
    d = ceil(log2(n))
    return Traffic(2 * d, 2 * k * d, k * d, 2 * k * (n - 1), n)


def _halving_doubling(k: float, n: int) -> Traffic:
    """Rabenseifner: halve and sum with partners ever nearer, then double back; log2 rounds each
    way, K (M-1)/M bytes.

    Where N is no power of two, r = N - M ranks first give their buffer to a partner and get the
    result at the end.
    """
    d = int(log2(n))
    m = 2**d
    fold = 1 if n > m else 0
    core = 2 * k * (m - 1) / m
    return Traffic(2 * d + 2 * fold, core + 2 * fold * k, core + fold * k, 2 * k * (n - 1), n)


def _pairwise(k: float, n: int) -> Traffic:
    """All-to-all: N - 1 rounds, in each a rank sends K / N to another one; K is what one rank
    holds.
    """
    return Traffic(n - 1, k * (n - 1) / n, k * (n - 1) / n, k * (n - 1), n)


def _one_way(k: float, n: int) -> Traffic:
    """One message."""
    return Traffic(1, k, k, k, n)


ALGORITHMS: dict[
    str, dict[str, Callable[[float, int], Traffic]]
] = {  # the first of each is the default
    "all-reduce": {
        "ring": _ring(2),
        "tree": _tree_all_reduce,
        "halving-doubling": _halving_doubling,
        "naive": _star(2),
    },
    "reduce-scatter": {"ring": _ring(1)},
    "all-gather": {"ring": _ring(1)},
    "all-to-all": {"pairwise": _pairwise},
    "broadcast": {"tree": _tree_broadcast, "naive": _star(1)},
    "reduce": {"tree": _tree_reduce},
    "gather": {"naive": _gather_star},
    "scatter": {"naive": _scatter_star},
    "send": {"direct": _one_way},
}


def traffic(collective: str, *, payload: float, ranks: int, algorithm: str = "") -> Traffic:
    """Rounds and bytes of a collective; ring all-reduce: 2 (N-1) rounds, 2 K (N-1)/N a rank
    (Patarasuk and Yuan 2009).

    Ring, tree, halving and the naive way all move 2 (N-1) K in total; they differ in who sends it
    and when.
    """
    choices = ALGORITHMS[one_of("collective", collective, ALGORITHMS)]
    chosen = choices[
        next(iter(choices)) if algorithm == "" else one_of("algorithm", algorithm, choices)
    ]
    n = whole("ranks", ranks, least=2 if collective == "send" else 1)
    return chosen(non_negative("payload", payload), n)


def sent(collective: str, *, payload: float, ranks: int, algorithm: str = "") -> float:
    """Bytes a rank sends, on average over the ranks: 2 K (N-1)/N for every all-reduce here."""
    return traffic(collective, payload=payload, ranks=ranks, algorithm=algorithm).mean


def time(
    collective: str,
    *,
    payload: float,
    ranks: int,
    bandwidth: float,
    latency: float = 0.0,
    algorithm: str = "",
) -> Parts:
    """Alpha-beta time: rounds * alpha + serial / W (Thakur, Rabenseifner and Gropp 2005, section
    3).
    """
    moved = traffic(collective, payload=payload, ranks=ranks, algorithm=algorithm)
    alpha, w = non_negative("latency", latency), positive("bandwidth", bandwidth)
    parts = {"latency": moved.rounds * alpha, "transfer": moved.serial / w}
    return Parts(f"{collective} over {ranks} ranks", "second", parts)


def crossover(
    collective: str, first: str, second: str, *, ranks: int, bandwidth: float, latency: float
) -> float:
    """Payload from which algorithm `first` takes less time than `second`: alpha W (more rounds) /
    (fewer bytes).

    Bytes are those one after the other, for each byte of payload. 0: for every payload; infinite:
    for none.
    """
    choices = ALGORITHMS[one_of("collective", collective, ALGORITHMS)]
    named = one_of("first", first, choices), one_of("second", second, choices)
    one, two = (traffic(collective, payload=1, ranks=ranks, algorithm=a) for a in named)
    alpha, w = non_negative("latency", latency), positive("bandwidth", bandwidth)
    more_rounds, fewer_bytes = one.rounds - two.rounds, two.serial - one.serial
    if fewer_bytes <= 0:
        return inf
    return max(0.0, alpha * w * more_rounds / fewer_bytes)


def ring_balance(*, payload: float, bandwidth: float, latency: float) -> float:
    """Ranks at which a ring spends as long on latency as on bytes, 2(N-1) alpha = 2K(N-1)/(N W): N
    = K/(alpha W).
    """
    k, w, alpha = (
        non_negative("payload", payload),
        positive("bandwidth", bandwidth),
        positive("latency", latency),
    )
    return k / (alpha * w)


def ring_steps(pieces: Sequence[Any], rank: int) -> tuple[list, list]:
    """What a rank gives to its right and takes from its left, step by step: those of
    reduce-scatter, of all-gather.

    Piece p starts on rank p + 1 and goes once round, so that it ends, summed, on rank p (Patarasuk
    and Yuan 2009).
    """
    pieces = listed("pieces", pieces)
    r, n = whole("rank", rank, least=0), len(pieces)
    if r >= n:
        raise InputError(f"rank = {rank}: expected 0 to {n - 1}, one rank for each piece")
    scatter = [(pieces[(r - step - 1) % n], pieces[(r - step - 2) % n]) for step in range(n - 1)]
    gather = [(pieces[(r - step) % n], pieces[(r - step - 1) % n]) for step in range(n - 1)]
    return scatter, gather


def ring_messages(
    *, payload: float, bandwidths: Sequence[float], latency: float = 0.0
) -> list[list[tuple[float, float]]]:
    """(start, end) of each rank's 2(N-1) messages in a ring whose links differ; bandwidths[r] is
    rank r's to its right.

    A message leaves when the one before it has left and what it carries on has come. So the last
    one ends at 2(N-1) (alpha + K / (N min W)): a chain of messages that wait for each other has one
    for each step.
    """
    w = [positive("bandwidths", one) for one in listed("bandwidths", bandwidths)]
    n, k, alpha = (
        whole("bandwidths", len(w)),
        non_negative("payload", payload),
        non_negative("latency", latency),
    )
    messages: list[list[tuple[float, float]]] = [[] for _ in w]
    came, left = [0.0] * n, [0.0] * n
    for _ in range(2 * (n - 1)):
        starts = [max(came[r], left[r]) for r in range(n)]
        left = [starts[r] + alpha + k / n / w[r] for r in range(n)]
        came = [left[r - 1] for r in range(n)]
        for r in range(n):
            messages[r].append((starts[r], left[r]))
    return messages


def hierarchical(
    collective: str = "all-reduce", *, payload: float, levels: Sequence[int]
) -> list[Traffic]:
    """A collective by levels, innermost first, a ring on each; level i works on K / (product of the
    sizes before it).

    All-reduce: reduce-scatter inside, all-reduce of K/g across, all-gather inside. One level is the
    flat ring, and the bytes of all levels add up to the flat ring's 2 K (N-1)/N.
    """
    passes = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}
    p = passes[one_of("collective", collective, passes)]
    k, sizes = (
        non_negative("payload", payload),
        [whole("levels", n) for n in listed("levels", levels)],
    )
    if not sizes:
        raise InputError(
            f"levels = {levels!r}: expected the ranks of each level, innermost first, such as [8, "
            "4]"
        )
    return [_ring(p)(k / prod(sizes[:i]), n) for i, n in enumerate(sizes)]


def hierarchical_time(
    collective: str = "all-reduce",
    *,
    payload: float,
    levels: Sequence[int],
    bandwidths: Sequence[float],
    latencies: Sequence[float] = (),
) -> Parts:
    """Time of a hierarchical collective by level: each level has its own W (a rank's share of the
    link) and alpha.
    """
    moved = hierarchical(collective, payload=payload, levels=levels)
    bandwidths, latencies = (
        listed("bandwidths", bandwidths),
        listed("latencies", latencies) or [0.0] * len(moved),
    )
    for name, given in (("bandwidths", bandwidths), ("latencies", latencies)):
        if len(given) != len(moved):
            raise InputError(f"{name} = {given}: expected one for each of the {len(moved)} levels")
    parts = {}
    for i, (m, w, alpha) in enumerate(zip(moved, bandwidths, latencies, strict=True)):
        seconds = m.rounds * non_negative("latencies", alpha) + m.serial / positive("bandwidths", w)
        parts["inside" if i == 0 else "across" if len(moved) == 2 else f"level {i + 1}"] = seconds
    return Parts(f"{collective}, {' x '.join(map(str, levels))} ranks", "second", parts)


BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-reduce-in-network": lambda n: (n - 1) / (n + 1),
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "send": lambda n: 1.0,
}


def bus_factor(collective: str, ranks: int) -> float:
    """busbw / algbw (nccl-tests, doc/PERFORMANCE.md): 2(N-1)/N all-reduce, (N-1)/N its halves, 1
    from or to a root.
    """
    return BUS_FACTORS[one_of("collective", collective, BUS_FACTORS)](whole("ranks", ranks))


def bus_bandwidth(collective: str, *, payload: float, ranks: int, seconds: float) -> float:
    """Bus bandwidth from a measured time: K / t * factor, comparable with the link for any number
    of ranks.
    """
    return (
        positive("payload", payload) / positive("seconds", seconds) * bus_factor(collective, ranks)
    )


def time_at_bus_bandwidth(
    collective: str, *, payload: float, ranks: int, bus_bandwidth: float
) -> float:
    """Time from a bus bandwidth, which already holds the factor: t = K * factor / busbw. Never
    multiply again.
    """
    return (
        non_negative("payload", payload)
        * bus_factor(collective, ranks)
        / positive("bus_bandwidth", bus_bandwidth)
    )
