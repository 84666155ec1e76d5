"""Who looks at what when in causal ring attention, and how even that is.

N ranks of a ring · s tokens of a sequence
Rank r's queries stay. In step i it meets the keys and values of rank r - i, its source then. Tokens
lie on the ranks in one of two orders:
plain     rank r has the r-th of N blocks: the first rank soon has nothing to do
zigzag    rank r has the r-th and the r-th last of 2 N halves: all ranks have as much to do
"""

from typing import NamedTuple

from mathlib.checks import below, divides, one_of, whole

ORDERS = ("plain", "zigzag")


class Look(NamedTuple):
    """What a rank computes in a step: its queries from the first on that sees anything, the keys
    that it sees, and whether the later of those are hidden from the earlier queries.
    """

    first_query: int
    keys: int
    causal: bool


def places(order: str, *, ranks: int, rank: int, tokens: int) -> list[range]:
    """The tokens of a rank, as ranges of places in the sequence.

    Chapter: sequences (eq-zigzag)
    """
    N, r, s = whole("ranks", ranks), below("rank", rank, ranks), whole("tokens", tokens)
    if one_of("order", order, ORDERS) == "plain":
        size, pieces = s // divides("ranks", N, "tokens", s), [r]
    else:
        size, pieces = s // divides("2 * ranks", 2 * N, "tokens", s), [r, 2 * N - 1 - r]
    return [range(piece * size, (piece + 1) * size) for piece in pieces]


def look(order: str, *, rank: int, source: int, own: int) -> Look | None:
    """What a rank computes with the keys of another, each with `own` tokens; None:
    nothing, for all of them are of its future.

    Zigzag: of an earlier rank's keys the first half is seen by all queries, of a later
    rank's all keys by the second half of the queries (ring-flash-attention).

    Chapter: sequences
    """
    size = whole("own", own)
    rank, source = whole("rank", rank, least=0), whole("source", source, least=0)
    if rank == source:
        return Look(0, size, True)
    if one_of("order", order, ORDERS) == "plain":
        return Look(0, size, False) if source < rank else None
    half = size // divides("halves", 2, "own", size)
    return Look(0, half, False) if source < rank else Look(half, size, False)


def scores(order: str, *, rank: int, source: int, own: int) -> int:
    """Pairs of a query and a key that meet in a step: a triangle and its diagonal of a rank's own,
    else a rectangle.

    Chapter: sequences (eq-plain-ring)
    """
    seen = look(order, rank=rank, source=source, own=own)
    if seen is None:
        return 0
    return own * (own + 1) // 2 if seen.causal else (own - seen.first_query) * seen.keys


def step_scores(order: str, *, ranks: int, tokens: int) -> list[list[int]]:
    """The scores of every rank in each of the N steps.

    Chapter: sequences
    """
    N = whole("ranks", ranks)
    own = sum(map(len, places(order, ranks=N, rank=0, tokens=tokens)))
    return [
        [scores(order, rank=r, source=(r - step) % N, own=own) for r in range(N)]
        for step in range(N)
    ]


def efficiency(order: str, *, ranks: int, tokens: int | None = None) -> float:
    """Share of the ranks' time in which they compute, where a step lasts as long as its busiest
    rank and messages hide: N/(2N - 1) in the plain order and 1 in zigzag, for long sequences.

    `tokens`: exactly, with the diagonal: (s + 1) / (2 s - s/N + 1) and 1.

    Chapter: sequences (eq-plain-ring)
    """
    N = whole("ranks", ranks)
    if tokens is None:
        return N / (2 * N - 1) if one_of("order", order, ORDERS) == "plain" else 1.0
    steps = step_scores(order, ranks=N, tokens=tokens)
    return sum(map(sum, steps)) / (N * sum(map(max, steps)))
