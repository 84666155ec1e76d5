"""Optimizers that need whole matrices: who owns which tensor, and what a rank then sends.

N ranks · K payload, bytes
An owner keeps a tensor's optimizer states and updates it for all. A flat shard of ZeRO ends inside
a matrix, and an update that multiplies matrices cannot be computed from a shard.
"""

from collections.abc import Sequence

from mathlib.checks import listed, non_negative, one_of, positive, whole
from mathlib.parts import Part, Parts
from mathlib.traffic import comm


def deal(sizes: Sequence[float], ranks: int) -> list[list[int]]:
    """Numbers of the tensors that each rank owns: the largest first, each to the rank that has
    least (Graham 1969), so that no rank has more than 4/3 - 1/(3 N) of the best that is possible.

    Chapter: memory
    """
    weights = [non_negative("sizes", one) for one in listed("sizes", sizes)]
    held = [0.0] * whole("ranks", ranks)
    owned: list[list[int]] = [[] for _ in held]
    for i in sorted(range(len(weights)), key=lambda i: -weights[i]):
        rank = held.index(min(held))
        held[rank] += weights[i]
        owned[rank].append(i)
    return owned


def sent_by_owners(sizes: Sequence[float], ranks: int) -> list[float]:
    """Bytes each rank sends in a step: gradients go round a ring to the owners, and new weights
    back. Rank r sends 2 K - K_r - K_{r+1}, where it owns K_r bytes; the mean is 2 K (N-1)/N.

    Chapter: memory
    """
    held = [sum(sizes[i] for i in of) for of in deal(sizes, ranks)]
    after = held[1:] + held[:1]
    return [2 * sum(held) - one - next_one for one, next_one in zip(held, after, strict=True)]


# Multiples of K (N-1)/N that a rank sends in a step
WAYS = {
    "owners": {"gradients": 1, "weights": 1},
    "repeated": {"gradients": 2},
    "dealt": {"gradients": 2, "updates": 1},
    "flat, repeated": {"gradients": 1, "momentum": 1},
    "flat, dealt": {"gradients": 1, "momentum": 1, "updates": 1},
}


def by_way(way: str, *, payload: float, ranks: int, momentum: float = 1) -> Parts:
    """Bytes a rank sends in a step, on average, so that somebody can update whole matrices.

    "owners": gradients to them, new weights back. "repeated": gradients to all, and every rank
    keeps all states and computes all updates. "dealt": each computes some of them, as Distributed
    Shampoo (Shi et al. 2023). "flat": momentum lies in ZeRO's shards, and is gathered; every rank
    computes all updates, or some, as DeepSpeed's stage 3. Stage 3 gathers its weights beside that.
    `momentum`: bytes of one of its numbers to those of a gradient's.

    Chapter: memory
    """
    kinds = WAYS[one_of("way", way, WAYS)]
    once = comm.sent("all-gather", payload=payload, ranks=ranks)
    wide = {"momentum": positive("momentum", momentum)}
    parts: dict[str, Part] = {n: times * wide.get(n, 1) * once for n, times in kinds.items()}
    return Parts(f"Updates of whole matrices, {way}", "byte", parts)
