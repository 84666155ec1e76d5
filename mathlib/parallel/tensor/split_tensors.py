"""Which part of a parameter a rank has: heads stay whole, words may be uneven.

t tensor ranks · a heads · d head_dim · V padded vocabulary · h width
A matrix is cut along one dim, by heads of d rows there: d = 1 where any row will do. Of `matrices`
that stand end to end (queries, keys and values in one) each is cut for itself. Where there are
fewer heads than ranks, t/a ranks that follow each other have the same one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mathlib.checks import InputError


@dataclass(frozen=True)
class Cut:
    """How a parameter is cut; dim -1: not at all."""

    dim: int = -1
    head: int = 1  # rows that stay together
    matrices: int = 1  # that stand end to end along the dim

    def whole(self) -> bool:
        """Whether every rank has all of it."""
        return self.dim < 0

    def count(self, size: int) -> int:
        """How many heads there are to be had."""
        return size // self.head // self.matrices

    def mine(self, whole: Tensor, rank: int, ranks: int) -> Tensor:
        """A rank's part, in memory of its own."""
        if self.whole():
            return whole.detach().clone()
        own = share(self.count(whole.shape[self.dim]), rank, ranks)
        heads = whole.detach().unflatten(self.dim, (self.matrices, -1, self.head))
        part = heads.narrow(self.dim + 1, own.start, len(own))
        return part.flatten(self.dim, self.dim + 2).clone(memory_format=torch.contiguous_format)

    def joined(self, parts: Sequence[Tensor], size: int) -> Tensor:
        """All ranks' parts as the parameter of that many rows that they were cut from."""
        if self.whole():
            return parts[0]
        once = parts[:: sharers(self.count(size), len(parts))]
        heads = [part.unflatten(self.dim, (self.matrices, -1, self.head)) for part in once]
        return torch.cat(heads, self.dim + 1).flatten(self.dim, self.dim + 2)


WHOLE = Cut()


def share(count: int, rank: int, ranks: int) -> range:
    """Which of so many heads, features or vocabulary entries a rank has; parts differ by 1."""
    if count < ranks:
        first = rank // sharers(count, ranks)
        return range(first, first + 1)
    return range(count * rank // ranks, count * (rank + 1) // ranks)


def sharers(count: int, ranks: int) -> int:
    """Ranks that have the same head."""
    if count >= ranks:
        return 1
    if ranks % count:
        raise InputError(
            f"tensor = {ranks}: expected a multiple of the {count} key-value heads, or a number "
            "that divides them"
        )
    return ranks // count
