"""Embedding, head and loss over words: no rank ever has whole logits.

t tensor ranks · V padded vocabulary, of which a rank has V/t words or one more
b s h   numbers of the residual stream
The loss needs three numbers a token of every rank: the largest logit, the sum of the exponentials,
the target's logit (Shoeybi et al. 2019, section 3). It keeps the probabilities of V/t words.
"""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.parallel.tensor.conjugates import all_reduce_forward, scatter_forward
from mathlib.parallel.tensor.split_matrices import Exchange


def here(words: Tensor, own: range) -> tuple[Tensor, Tensor]:
    """The row of each word, and which words other ranks have."""
    row = words - own.start
    elsewhere = (row < 0) | (row >= len(own))
    return row.masked_fill(elsewhere, 0), elsewhere


class Words(nn.Module):
    """Rows of the embedding table; the sum is every rank's, or each has s/t tokens of it."""

    def __init__(self, weight: Tensor, own: range, how: Exchange, scatter: bool):
        super().__init__()
        self.weight, self.own = nn.Parameter(weight), own
        self.add, self.group = scatter_forward if scatter else all_reduce_forward, how.group

    def forward(self, tokens: Tensor) -> Tensor:
        row, elsewhere = here(tokens, self.own)
        x = F.embedding(row, self.weight).masked_fill(elsewhere[..., None], 0)
        return self.add(x, self.group)


class CrossEntropy(torch.autograd.Function):
    """Nats of each token: log(sum exp(logit - top)) - (the target's logit - top)."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, own: range, group: ProcessGroup | None
    ) -> Tensor:  # n V/t, n -> n
        top = logits.amax(-1)
        dist.all_reduce(top, dist.ReduceOp.MAX, group)
        row, elsewhere = here(targets, own)
        weights = logits - top[:, None]
        score = weights.gather(-1, row[:, None])[:, 0].masked_fill(elsewhere, 0)
        parts = torch.stack([score, weights.exp_().sum(-1)])
        dist.all_reduce(parts, group=group)
        score, total = parts
        ctx.save_for_backward(weights.div_(total[:, None]), row, elsewhere)
        return total.log() - score

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        chances, row, elsewhere = ctx.saved_tensors
        (each,) = gradients
        slopes = chances * each[:, None]
        slopes.scatter_add_(-1, row[:, None], -each.masked_fill(elsewhere, 0)[:, None])
        return slopes, None, None, None


def summed_cross_entropy(
    logits: Tensor, targets: Tensor, own: range, group: ProcessGroup | None = None
) -> Tensor:
    """Sum over the tokens whose target is not -100."""
    nats = CrossEntropy.apply(logits.flatten(0, -2), targets.flatten(), own, group)
    return nats.masked_fill(targets.flatten() < 0, 0).sum()


def cross_entropy(
    logits: Tensor, targets: Tensor, own: range, group: ProcessGroup | None = None
) -> Tensor:
    """Mean over the tokens whose target is not -100; of none it is no number, as torch's."""
    return summed_cross_entropy(logits, targets, own, group) / (targets >= 0).sum()
