"""Sending less: bytes a rank sends in a step when gradients are compressed, or when the ranks meet
every H steps only, and the link on which that pays.

N ranks · K payload, bytes · H steps from one meeting of the ranks to the next · W bandwidth, byte/s
"""

from collections.abc import Iterable

from mathlib.checks import InputError, non_negative, positive, whole
from mathlib.traffic import comm


def coded(*, numbers: float, ranks: int, bits: float, block: int | None = 256) -> float:
    """Each number as a code of some bits, each block with a scale of 4 bytes:
    2 numbers (bits/8 + 4/block) (N-1)/N.  block: None if there are no scales.

    Codes do not add up on their way round a ring: they go to the owner of their
    chunk, and the mean's code goes to all.

    Chapter: links (eq-links-coded, eq-links-int8)
    """
    scale = 4 / whole("block", block) if block is not None else 0
    each = positive("bits", bits) / 8 + scale
    payload = positive("numbers", numbers) * each
    return comm.sent("all-reduce", payload=payload, ranks=ranks)


def largest(*, kept: float, ranks: int, number_bytes: float = 4) -> float:
    """Top-k: the k largest numbers and their places (4 bytes) go to everybody,
    (4 + 4) k (N-1).

    Chapter: links (eq-links-topk)
    """
    each = positive("kept", kept) * (positive("number_bytes", number_bytes) + 4)
    return each * (whole("ranks", ranks) - 1)


def low_rank(*, shapes: Iterable[tuple[int, int]], rank: int, ranks: int) -> float:
    """PowerSGD: of each m x n matrix the sums of U, m x r, and V, n x r: 2 * 4 r (m + n) (N-1)/N.

    Chapter: links (eq-links-lowrank, eq-links-powersgd)
    """
    numbers = sum(
        min(whole("rank", rank), m, n) * (whole("rows", m) + whole("columns", n)) for m, n in shapes
    )
    return comm.sent("all-reduce", payload=4 * numbers, ranks=ranks)


def local_steps(
    *,
    payload: float,
    ranks: int,
    steps: int,
    fragments: int = 1,
) -> dict[str, float]:
    """Ranks that average their weights every H steps: bytes sent in a step on average,
    2 K/H (N-1)/N, and in a step that does, of one fragment of the weights.

    Chapter: links (eq-links-local)
    """
    H, parts = whole("steps", steps), whole("fragments", fragments)
    if parts > H:
        raise InputError(f"fragments = {fragments}: expected at most steps = {steps}")
    whole_bytes = comm.sent("all-reduce", payload=payload, ranks=ranks)
    return {"on average": whole_bytes / H, "at most": whole_bytes / parts}


def break_even(*, full: float, less: float, seconds: float, hidden: float = 0) -> float:
    """Bandwidth below which a code pays: the bytes it saves over the seconds to code,
    (full - less) / seconds; or full / (hidden + seconds), if that is less.

    hidden: seconds of sending, not of coding, that hide behind backward.

    Chapter: links (eq-links-even)
    """
    saved = positive("full", full) - non_negative("less", less)
    if saved <= 0:
        raise InputError(f"less = {less:g}: expected fewer bytes than full = {full:g}")
    took = positive("seconds", seconds)
    return min(saved / took, full / (non_negative("hidden", hidden) + took))


def utilization(*, compute: float, sending: float, steps: int = 1) -> float:
    """Share of the time in which a rank computes: H c / (H c + s). Steps take c, and a
    meeting after H of them takes s, none of it hidden.

    Chapter: links (eq-links-utilization, eq-links-share)
    """
    computing = whole("steps", steps) * positive("compute", compute)
    return computing / (computing + non_negative("sending", sending))
