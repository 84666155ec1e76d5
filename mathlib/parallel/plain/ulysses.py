"""Ulysses: a rank has a part of each sequence, in attention some heads of the whole.

P   ranks, which divide the heads     S   tokens of a sequence, P chunks of them
B   sequences     a   heads     d   width of a head

             between blocks     in attention     sent, in tensors of B a S/P d
q, k, v      B a S/P d          B a/P S d        3 (P-1)/P forward, and backward
result       B a S/P d          B a/P S d        (P-1)/P forward, and backward

Attention is any on whole sequences, with as much to do on each rank.  There must be as
many heads of keys and values as ranks, or more (Jacobs et al. 2023, arXiv:2309.14509).

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.ulysses
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.model.gpt import plain_attention
from mathlib.parallel.plain.ring_attention import RingAttention


def all_to_all(x: Tensor, split: int, join: int, group: ProcessGroup | None) -> Tensor:
    """Part i along `split` goes to rank i; what comes is joined along `join`."""
    give = torch.stack(x.chunk(dist.get_world_size(group), split))
    take = torch.empty_like(give)
    dist.all_to_all_single(take, give, group=group)
    return torch.cat(take.unbind(), join)


class AllToAll(torch.autograd.Function):
    """All-to-all forward, and backward the gradients' way back."""

    @staticmethod
    def forward(ctx, x, split, join, group):
        ctx.back = join, split, group
        return all_to_all(x, split, join, group)

    @staticmethod
    def backward(ctx, gradient):
        return all_to_all(gradient, *ctx.back), None, None, None


class Ulysses(RingAttention):
    """The small GPT; of a batch that all ranks have, each takes its part."""

    def __init__(self, model, make, group=None):
        super().__init__(model, make, "plain", group)

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # B a S/P d
        heads = (AllToAll.apply(x, 1, 2, self.group) for x in (q, k, v))  # B a/P S d
        return AllToAll.apply(plain_attention(*heads), 2, 1, self.group)


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.sequences("Ulysses", Ulysses)
