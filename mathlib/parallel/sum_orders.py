"""The sums of the collectives in one process: the same additions in the same order, so the same
bits.

x    (N, length): what N ranks bring, one row each; the result is the row that all of them get
"""

import torch
from torch import Tensor


def ring(x: Tensor) -> Tensor:
    """Piece p starts on rank p + 1, and every next rank adds its own: N - 1 additions one after the
    other.
    """
    n, length = x.shape
    rank, column = torch.empty(length, dtype=torch.long), torch.arange(length)
    for p, piece in enumerate(rank.tensor_split(n)):
        piece.fill_(p + 1)
    total = x[rank % n, column]
    for step in range(1, n):
        total = x[(rank + step) % n, column] + total
    return total


def tree(x: Tensor) -> Tensor:
    """Up a binomial tree to rank 0: neighbours first, then neighbours of neighbours."""
    total, n, near = x.clone(), len(x), 1
    while near < n:
        sender = torch.arange(near, n, 2 * near)
        total[sender - near] += total[sender]
        near *= 2
    return total[0]


def error(total: Tensor, x: Tensor) -> float:
    """Root mean square error of a sum over its own root mean square; the truth is the sum in 64
    bits.
    """
    truth = x.double().sum(0)
    return ((total.double() - truth).square().mean() / truth.square().mean()).sqrt().item()
