"""Collectives: bytes a rank sends, rounds, and alpha-beta time.

K payload: bytes of the whole buffer (what a rank holds before an all-reduce, after an all-gather)
N ranks · alpha latency of one message, s · W bandwidth of a rank's link in ONE direction, byte/s
g ranks inside a node, of a hierarchical collective · r rank: its number, from 0
time = rounds * alpha + serial / W
NVLink's 900 GB/s adds up both directions: W is 450e9.
"""

from collections.abc import Callable, Sequence
from math import ceil, inf, log2, prod
from typing import Any

from mathlib.checks import InputError, listed, non_negative, one_of, positive, whole
from mathlib.parts import Parts
from mathlib.records import dataclass


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


def _ring(K: float, N: int, passes: int = 2) -> Traffic:
    """N - 1 rounds round the ring scatter the sums, N - 1 more gather them, K / N a message."""
    each = passes * K * (N - 1) / N
    return Traffic(passes * (N - 1), each, each, passes * K * (N - 1), N)


def _ring_once(K: float, N: int) -> Traffic:
    """Half of it: the sums are scattered, or the parts gathered."""
    return _ring(K, N, passes=1)


def _star(K: float, N: int) -> Traffic:
    """Naive: one rank receives from all, one after the other, and then sends to all."""
    return Traffic(2 * (N - 1), 2 * K * (N - 1), K * (N - 1), 2 * K * (N - 1), N)


def _broadcast_star(K: float, N: int) -> Traffic:
    """Naive broadcast: the root sends the buffer to every other rank, one after the other."""
    return Traffic(N - 1, K * (N - 1), K * (N - 1), K * (N - 1), N)


def _gather_star(K: float, N: int) -> Traffic:
    """Naive gather: every rank sends its K / N to the root, one after the other."""
    return Traffic(N - 1, K * (N - 1) / N, K / N if N > 1 else 0, K * (N - 1) / N, N)


def _scatter_star(K: float, N: int) -> Traffic:
    """Naive scatter: the root sends K / N to every other rank, one after the other."""
    return Traffic(N - 1, K * (N - 1) / N, K * (N - 1) / N, K * (N - 1) / N, N)


def _tree_reduce(K: float, N: int) -> Traffic:
    """Binomial tree to the root: every other rank sends its sum once, ceil(log2 N) rounds."""
    return Traffic(ceil(log2(N)), K * ceil(log2(N)), K if N > 1 else 0, K * (N - 1), N)


def _tree_broadcast(K: float, N: int) -> Traffic:
    """Binomial tree from the root: who has the buffer passes it on, ceil(log2 N) rounds."""
    return Traffic(ceil(log2(N)), K * ceil(log2(N)), K * ceil(log2(N)), K * (N - 1), N)


def _tree_all_reduce(K: float, N: int) -> Traffic:
    """Reduce to a root, then broadcast from it: 2 ceil(log2 N) rounds of the whole K."""
    rounds = 2 * ceil(log2(N))
    return Traffic(rounds, K * rounds, K * rounds / 2, 2 * K * (N - 1), N)


def _halving_doubling(K: float, N: int) -> Traffic:
    """Vector halving, distance doubling, and back; log2 rounds each way, K (M-1)/M bytes
    (Rabenseifner 2004).

    The first partner is the nearest and gets half of the buffer, the next is twice as far and gets
    a quarter: the largest messages go the shortest way. M is the largest power of two in N; the
    N - M ranks beyond it first give their buffer to a partner and get the result at the end.
    """
    steps = int(log2(N))
    M = 2**steps
    fold = 1 if N > M else 0
    core = 2 * K * (M - 1) / M
    return Traffic(2 * steps + 2 * fold, core + 2 * fold * K, core + fold * K, 2 * K * (N - 1), N)


def _pairwise(K: float, N: int) -> Traffic:
    """All-to-all: N - 1 rounds, in each a rank sends K / N to another one; K is what one rank
    holds.
    """
    return Traffic(N - 1, K * (N - 1) / N, K * (N - 1) / N, K * (N - 1), N)


def _one_way(K: float, N: int) -> Traffic:
    """One message, from one rank to one other."""
    return Traffic(1, K, K, K, N)


Algorithm = Callable[[float, int], Traffic]
ALGORITHMS: dict[str, dict[str, Algorithm]] = {  # the first of each is the default
    "all-reduce": {
        "ring": _ring,
        "tree": _tree_all_reduce,
        "halving-doubling": _halving_doubling,
        "naive": _star,
    },
    "reduce-scatter": {"ring": _ring_once},
    "all-gather": {"ring": _ring_once},
    "all-to-all": {"pairwise": _pairwise},
    "broadcast": {"tree": _tree_broadcast, "naive": _broadcast_star},
    "reduce": {"tree": _tree_reduce},
    "gather": {"naive": _gather_star},
    "scatter": {"naive": _scatter_star},
    "send": {"direct": _one_way},
}


def traffic(
    collective: str,
    *,
    payload: float,
    ranks: int,
    algorithm: str = "",
) -> Traffic:
    """Rounds and bytes of a collective; ring all-reduce: 2 (N-1) rounds, 2 K (N-1)/N a
    rank (Patarasuk and Yuan 2009).

    Ring, tree, halving and the naive way all move 2 (N-1) K in total; they differ in
    who sends it and when.

    Chapter: collectives
    """
    choices = ALGORITHMS[one_of("collective", collective, ALGORITHMS)]
    name = next(iter(choices)) if algorithm == "" else algorithm
    chosen = choices[one_of("algorithm", name, choices)]
    K, N = (
        non_negative("payload", payload),
        whole("ranks", ranks, least=2 if collective == "send" else 1),
    )
    return chosen(K, N)


def sent(collective: str, *, payload: float, ranks: int, algorithm: str = "") -> float:
    """Bytes a rank sends, on average over the ranks: 2 K (N-1)/N for every all-reduce here.

    For "send" those of the rank that sends, K: however many others there are, they take no part.

    Chapter: collectives (eq-bound, eq-sent)
    Chapter: data_parallel (eq-ddp-bytes)
    """
    moved = traffic(collective, payload=payload, ranks=ranks, algorithm=algorithm)
    return moved.busiest if collective == "send" else moved.mean


def time(
    collective: str,
    *,
    payload: float,
    ranks: int,
    bandwidth: float,
    latency: float = 0.0,
    algorithm: str = "",
) -> Parts:
    """Alpha-beta time: rounds * alpha + serial / W (Thakur, Rabenseifner and Gropp
    2005, section 3).

    Chapter: collectives (eq-time, eq-ring-time, eq-tree-time, eq-halving-time)
    Chapter: data_parallel (eq-ddp-time)
    """
    moved = traffic(collective, payload=payload, ranks=ranks, algorithm=algorithm)
    alpha, W = non_negative("latency", latency), positive("bandwidth", bandwidth)
    parts = {"latency": moved.rounds * alpha, "transfer": moved.serial / W}
    return Parts(f"{collective} over {ranks} ranks", "second", parts)


def faster(
    collective: str, first: str, second: str, *, ranks: int, bandwidth: float, latency: float
) -> tuple[float, float]:
    """Payloads for which algorithm `first` takes less time than `second`: more than low, less than
    high.

    Equal times: K = alpha W (more rounds) / (fewer bytes), the bytes those one after the other for
    each byte of payload. Fewer bytes win above it, fewer rounds below. (0, inf): for every payload;
    (0, 0): for none.

    Chapter: collectives (eq-crossover)
    """
    choices = ALGORITHMS[one_of("collective", collective, ALGORITHMS)]
    named = one_of("first", first, choices), one_of("second", second, choices)
    one, two = (traffic(collective, payload=1, ranks=ranks, algorithm=a) for a in named)
    alpha, W = non_negative("latency", latency), positive("bandwidth", bandwidth)
    later, fewer_bytes = alpha * W * (one.rounds - two.rounds), two.serial - one.serial
    if fewer_bytes > 0:
        return max(0.0, later / fewer_bytes), inf
    if later >= 0:
        return 0.0, 0.0
    return 0.0, later / fewer_bytes if fewer_bytes else inf


def crossover(
    collective: str, first: str, second: str, *, ranks: int, bandwidth: float, latency: float
) -> float:
    """Payload beyond which algorithm `first` takes less time than `second`, however large it gets.

    0: for every payload. Infinite: never for good; `faster` says whether it does for small ones.

    Chapter: collectives (eq-crossover)
    """
    given: dict[str, Any] = {"ranks": ranks, "bandwidth": bandwidth, "latency": latency}
    low, high = faster(collective, first, second, **given)
    return low if high == inf else inf


def ring_balance(*, payload: float, bandwidth: float, latency: float) -> float:
    """Ranks at which a ring spends as long on latency as on bytes, 2(N-1) alpha =
    2K(N-1)/(N W): N = K/(alpha W).

    Chapter: collectives (eq-balance)
    """
    K, W = non_negative("payload", payload), positive("bandwidth", bandwidth)
    return K / (positive("latency", latency) * W)


def ring_steps(chunks: Sequence[Any], rank: int) -> tuple[list, list]:
    """What a rank gives to its right and takes from its left, step by step: those of
    reduce-scatter, of all-gather.

    Piece r starts on rank r + 1 and goes once round, so that it ends, summed, on rank r
    (Patarasuk and Yuan 2009).

    Chapter: collectives (eq-ring)
    """
    chunks = listed("chunks", chunks)
    r, N = whole("rank", rank, least=0), len(chunks)
    if r >= N:
        raise InputError(f"rank = {rank}: expected 0 to {N - 1}, one for each chunk")
    # (give, take) of each step: what was taken in one step is given on in the next
    scatter = [(chunks[(r - 1 - s) % N], chunks[(r - 2 - s) % N]) for s in range(N - 1)]
    gather = [(chunks[(r - s) % N], chunks[(r - 1 - s) % N]) for s in range(N - 1)]
    return scatter, gather


def ring_messages(
    *, payload: float, bandwidths: Sequence[float], latency: float = 0.0
) -> list[list[tuple[float, float]]]:
    """(start, end) of each rank's 2(N-1) messages in a ring whose links differ;
    bandwidths[r] is rank r's to its right.

    A message leaves when the one before it has left and what it carries on has come. So
    the last one ends at 2(N-1) (alpha + K / (N min W)): a chain of messages that wait
    for each other has one for each step.

    Chapter: collectives (eq-slowest)
    """
    W = [positive("bandwidths", one) for one in listed("bandwidths", bandwidths)]
    K, alpha = non_negative("payload", payload), non_negative("latency", latency)
    N = whole("bandwidths", len(W))
    messages: list[list[tuple[float, float]]] = [[] for _ in W]
    came, left = [0.0] * N, [0.0] * N
    for _ in range(2 * (N - 1)):
        starts = [max(came[i], left[i]) for i in range(N)]
        left = [starts[i] + alpha + K / N / W[i] for i in range(N)]
        came = [left[i - 1] for i in range(N)]
        for i in range(N):
            messages[i].append((starts[i], left[i]))
    return messages


def hierarchical(
    collective: str = "all-reduce", *, payload: float, levels: Sequence[int]
) -> list[Traffic]:
    """A collective by levels, innermost first, a ring on each; level i works on K / (product of the
    sizes before it).

    All-reduce: reduce-scatter inside, all-reduce of K/g across, all-gather inside. One level is the
    flat ring, and the bytes of all levels add up to the flat ring's 2 K (N-1)/N.

    Chapter: collectives (eq-levels)
    """
    rings = {"all-reduce": _ring, "reduce-scatter": _ring_once, "all-gather": _ring_once}
    ring = rings[one_of("collective", collective, rings)]
    K = non_negative("payload", payload)
    sizes = [whole("levels", n) for n in listed("levels", levels)]
    if not sizes:
        raise InputError(
            f"levels = {levels!r}: expected the ranks of each level, innermost first, such as [8, "
            "4]"
        )
    return [ring(K / prod(sizes[:i]), n) for i, n in enumerate(sizes)]


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

    Chapter: collectives (eq-levels-time)
    """
    moved = hierarchical(collective, payload=payload, levels=levels)
    bandwidths = listed("bandwidths", bandwidths)
    latencies = listed("latencies", latencies) or [0.0] * len(moved)
    for name, given in (("bandwidths", bandwidths), ("latencies", latencies)):
        if len(given) != len(moved):
            raise InputError(f"{name} = {given}: expected one for each of the {len(moved)} levels")
    parts = {}
    for i, (m, w, alpha) in enumerate(zip(moved, bandwidths, latencies, strict=True)):
        seconds = m.rounds * non_negative("latencies", alpha) + m.serial / positive("bandwidths", w)
        parts["inside" if i == 0 else "across" if len(moved) == 2 else f"level {i + 1}"] = seconds
    return Parts(f"{collective}, {' x '.join(map(str, levels))} ranks", "second", parts)


BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda N: 2 * (N - 1) / N,
    "all-reduce-in-network": lambda N: (N + 1) / N,
    "reduce-scatter": lambda N: (N - 1) / N,
    "all-gather": lambda N: (N - 1) / N,
    "all-to-all": lambda N: (N - 1) / N,
    "gather": lambda N: (N - 1) / N,
    "scatter": lambda N: (N - 1) / N,
    "broadcast": lambda N: 1.0,
    "reduce": lambda N: 1.0,
    "send": lambda N: 1.0,
}


def bus_factor(collective: str, ranks: int) -> float:
    """busbw / algbw (nccl-tests, doc/PERFORMANCE.md): 2(N-1)/N all-reduce, (N-1)/N its halves, 1
    from or to a root.

    In the network (N+1)/N: the switch adds the K of every rank, and a rank hands its K/N of the sum
    to the switch once more, for all (nccl-tests, pull request 239, comment of 2 Sep 2024, which
    takes the (N-1)/(N+1) of issue 212 back). nccl-tests itself prints 2(N-1)/N here too.

    Chapter: collectives
    """
    return BUS_FACTORS[one_of("collective", collective, BUS_FACTORS)](whole("ranks", ranks))


def bus_bandwidth(collective: str, *, payload: float, ranks: int, seconds: float) -> float:
    """Bus bandwidth from a measured time: K / t * factor, comparable with the link for any number
    of ranks.

    Chapter: collectives
    """
    return (
        positive("payload", payload) / positive("seconds", seconds) * bus_factor(collective, ranks)
    )


def time_at_bus_bandwidth(
    collective: str, *, payload: float, ranks: int, bus_bandwidth: float
) -> float:
    """Time from a bus bandwidth, which already holds the factor: t = K * factor / busbw. Never
    multiply again.

    Chapter: collectives
    """
    return (
        non_negative("payload", payload)
        * bus_factor(collective, ranks)
        / positive("bus_bandwidth", bus_bandwidth)
    )
