"""Embedding, head and loss of tensor parallelism: no rank ever has whole logits.

t   ranks      V   words, of which a rank has V/t or one more
b s h   numbers of the residual stream, which every rank has whole

embedding   V/t rows: zero for the words of other ranks; all-reduce of b s h forward
head        V/t columns: logits of V/t words, all-reduce of b s h backward
loss        log(sum exp(logit - top)) - (logit of the target - top): all-reduced are the
            top, the sum and the target's logit, three numbers a token, not V

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.vocabulary
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.parallel.plain import tensor
from mathlib.parallel.plain.tensor import AllReduceBackward, AllReduceForward


class Words(nn.Module):
    """Rows of the embedding table."""

    def __init__(self, whole: nn.Embedding, group):
        super().__init__()
        self.weight, self.group = tensor.part(whole.weight, 0, group), group
        self.own = tensor.own(len(whole.weight), group)

    def rows(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """The row of each word, and which words other ranks have."""
        row = words - self.own.start
        elsewhere = (row < 0) | (row >= len(self.own))
        return row.masked_fill(elsewhere, 0), elsewhere

    def forward(self, tokens: Tensor) -> Tensor:
        row, elsewhere = self.rows(tokens)
        x = F.embedding(row, self.weight).masked_fill(elsewhere[..., None], 0)
        return AllReduceForward.apply(x, self.group)


def cut(model, group=None, read=AllReduceBackward, add=AllReduceForward) -> nn.Module:
    """Leave this rank its part of the blocks, the embedding and the head."""
    tied = model.head.weight is model.tokens.weight
    tensor.cut(model, group, read, add)
    model.tokens = Words(model.tokens, group)
    model.head = tensor.Columns(model.head, group)
    if tied:
        model.head.weight = model.tokens.weight
    model.norm.register_forward_hook(lambda _, x, y: read.apply(y, group))
    return model


def loss(model, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy over the tokens whose target is not -100."""
    logits, group = model(tokens), model.tokens.group  # b s V/t
    top = logits.detach().amax(-1, keepdim=True)
    dist.all_reduce(top, dist.ReduceOp.MAX, group)
    logits = logits - top
    row, elsewhere = model.tokens.rows(targets)
    score = logits.gather(-1, row[..., None])[..., 0].masked_fill(elsewhere, 0)
    parts = torch.stack([score, logits.exp().sum(-1)])
    score, total = AllReduceForward.apply(parts, group)
    return (total.log() - score)[targets >= 0].mean()


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.tensor("vocabulary", cut, loss)
