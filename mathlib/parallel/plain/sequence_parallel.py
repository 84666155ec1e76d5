"""Sequence parallelism: outside the matrices a rank has its part of the tokens only.

t   ranks      s   tokens of a sequence, of which a rank has s/t

An all-reduce is a reduce-scatter and an all-gather.  Tensor parallelism does both where
a matmul ends; here norms, sums and dropout come in between, so that what they keep is
divided by t as well, and the same bytes are sent (Korthikanti et al. 2022).

                     tensor parallel, forward and backward   sequence parallel
norm to matmul       nothing, all-reduce                     all-gather, reduce-scatter
matmul to stream     all-reduce, nothing                     reduce-scatter, all-gather

Norms and the biases of `out` and `down` see s/t tokens: their gradients are summed.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.sequence_parallel
"""

import torch
from torch import Tensor, nn

from mathlib.parallel.plain import ring, vocabulary
from mathlib.parallel.plain.tensor import summed


def gathered(x: Tensor, group) -> Tensor:  # b s/t h -> b s h
    """All ranks' tokens."""
    rank, ranks = ring.place(group)
    tokens = x.new_empty(ranks, *x.transpose(0, 1).shape)
    tokens[rank] = x.transpose(0, 1)
    ring.all_gather(tokens, group)
    return tokens.flatten(0, 1).transpose(0, 1)


def scattered(x: Tensor, group) -> Tensor:  # b s h -> b s/t h
    """This rank's tokens of the sum."""
    tokens = x.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    mine = ring.reduce_scatter(tokens, group)
    return mine.view(-1, *tokens.shape[1:]).transpose(0, 1)


def mine(x: Tensor, group) -> Tensor:  # b s h -> b s/t h
    rank, ranks = ring.place(group)
    return x.chunk(ranks, 1)[rank]


def exchange(forward, backward) -> type[torch.autograd.Function]:
    """A function that does the one on the way there and the other on the way back."""

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            return forward(x, group)

        @staticmethod
        def backward(ctx, dx):
            return backward(dx, ctx.group), None

    return Exchange


GatherForwardScatterBackward = exchange(gathered, scattered)
ScatterForwardGatherBackward = exchange(scattered, gathered)
SplitForwardGatherBackward = exchange(mine, gathered)


def cut(model, group=None) -> nn.Module:
    """Leave this rank its part of the matrices; its tokens from the first block on."""
    reads, adds = GatherForwardScatterBackward, ScatterForwardGatherBackward
    vocabulary.cut(model, group, reads, adds)
    split = SplitForwardGatherBackward
    model.blocks[0].register_forward_pre_hook(lambda _, x: split.apply(x[0], group))
    for name, p in model.named_parameters():
        if "norm" in name or name.endswith(("out.bias", "down.bias")):
            p.register_hook(lambda gradient: summed(gradient, group))
    return model


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.tensor("sequence", cut, vocabulary.loss)
