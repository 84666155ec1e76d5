"""Both kernels against torch's attention on all keys, block by block; and what is no number."""

import pytest
import torch
from torch.nn import functional as F

from mathlib.parallel.sequences import block_kernels


def drawn(keys, heads=4, kv_heads=2, dtype=torch.float64):
    draw = torch.Generator().manual_seed(keys)
    queries, rest = (2, 2, heads, 5, 3), (2, 2, kv_heads, keys, 3)
    (q, given), kv = (torch.randn(n, generator=draw, dtype=torch.float64) for n in (queries, rest))
    return q.to(dtype), kv.to(dtype), given.to(dtype)


def in_blocks(kernel, q, kv, given, blocks):
    """Result and gradients of queries that look at one block of keys after the other, and at the
    last one causally.
    """
    *before, last = kv.split(blocks, 3)
    parts = [(last, True)] + [(part, False) for part in before]  # the own block first, as a ring
    heads, out = q.shape[1], None
    for part, causal in parts:
        found = kernel.forward(q, *block_kernels.each_query(part, heads), causal)
        if out is None:
            out, L = (x.to(block_kernels.wide(q), copy=True) for x in found)
        else:
            block_kernels.add_block(out, L, *found)
    dq, dkv = torch.zeros_like(out), {}
    for number, (part, causal) in enumerate(parts):
        keys, values = block_kernels.each_query(part, heads)
        own, *more = kernel.backward(given, q, keys, values, out.to(q.dtype), L, causal)
        dq += own
        dkv[number] = block_kernels.each_key(torch.stack(more), part.shape[2])
    order = [*range(1, len(parts)), 0]
    return out, dq, torch.cat([dkv[i] for i in order], 3)


def by_torch(q, kv, given):
    q, kv = (x.double().clone().requires_grad_() for x in (q, kv))
    mask = torch.ones(q.shape[2], kv.shape[3], dtype=torch.bool).tril(kv.shape[3] - q.shape[2])
    out = F.scaled_dot_product_attention(q, *kv, attn_mask=mask, enable_gqa=True)
    return out.detach(), *torch.autograd.grad(out, (q, kv), given.double())


@pytest.mark.parametrize("name", block_kernels.KERNELS)
def test_blocks_together_are_attention_to_all_keys(name):
    for blocks in ([5], [3, 5], [1, 7, 4, 5]):
        for kv_heads, dtype, close in ((2, torch.float64, 1e-12), (1, torch.bfloat16, 0.1)):
            q, kv, given = drawn(sum(blocks), 4, kv_heads, dtype)
            found = in_blocks(block_kernels.KERNELS[name], q, kv, given, blocks)
            for one, wanted in zip(found, by_torch(q, kv, given), strict=True):
                assert (one - wanted).abs().max() < close, (blocks, dtype)


def test_a_later_block_of_huge_scores_takes_over_and_a_small_one_adds_nothing():
    """Where exp alone would overflow: each block is scaled by what the largest leaves of it."""
    for scale in (1e3, 1e-3):
        q, kv, given = drawn(10)
        kv[:, :, :, :5] *= scale
        found, *_ = in_blocks(block_kernels.KERNELS["written"], q, kv, given, [5, 5])
        assert torch.allclose(found, by_torch(q, kv, given)[0], rtol=1e-10)


def test_a_block_without_a_key_is_nothing_to_add():
    """The sum of no exp is exp(-inf); but two such sums are no number, so a ring begins at home."""
    q, kv, _ = drawn(5)
    out, L = block_kernels.KERNELS["written"].forward(q, *block_kernels.each_query(kv, 4), True)
    kept, kept_L = out.clone(), L.clone()
    block_kernels.add_block(out, L, torch.zeros_like(out), torch.full_like(L, -torch.inf))
    assert torch.equal(out, kept) and torch.equal(L, kept_L)
    nothing = torch.full_like(L, -torch.inf)
    block_kernels.add_block(out, nothing, torch.zeros_like(out), torch.full_like(L, -torch.inf))
    assert out.isnan().all()
