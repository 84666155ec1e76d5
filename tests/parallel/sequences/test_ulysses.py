"""Ulysses by torch's attention on whole sequences, forward and backward, and by its bytes."""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from mathlib import launch
from mathlib.meters import wire
from mathlib.parallel.sequences import ulysses

B, OWN, WIDTH = 2, 5, 6


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def differs(kv_heads):
    """The farthest number of this rank's result and gradients, and the bytes that it sent."""
    N, draw = dist.get_world_size(), torch.Generator().manual_seed(0)
    heads = (2 * kv_heads, kv_heads, kv_heads, 2 * kv_heads)  # queries, keys, values, gradient
    shapes = [(B, a, N * OWN, WIDTH) for a in heads]
    whole = [torch.randn(s, generator=draw, dtype=torch.float64) for s in shapes]
    mine = [x.chunk(N, 2)[dist.get_rank()].clone() for x in whole]
    found = []
    for attention, (*leaves, given) in ((ulysses.Ulysses(sdpa), mine), (sdpa, whole)):
        leaves = [x.requires_grad_() for x in leaves]
        with wire.sent() as sent:
            out = attention(*leaves)
            out.backward(given)
        found.append([out.detach(), *(x.grad for x in leaves)])
        found[0].append(sent)
    *ours, sent, _ = found[0]
    wanted = [x.chunk(N, 2)[dist.get_rank()] for x in found[1]]
    far = max((a - b).abs().max().item() for a, b in zip(ours, wanted, strict=True))
    return far, sent.program, sent.system


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_heads_for_tokens_and_back_is_attention_to_the_whole_sequence(ranks):
    for far, program, system in launch.run(differs, ranks, 2 * ranks):
        assert far < 1e-12
        own = B * OWN * WIDTH * 8  # bytes of a head on a rank
        forward = (2 * 2 * ranks + 4 * ranks + 4 * ranks) * own * (ranks - 1) / ranks
        assert program == 2 * forward and system == program
