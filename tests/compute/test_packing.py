"""Rows of unequal documents: laws on drawn lengths, and a real attention with a mask of blocks."""

import random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from mathlib.checks import InputError
from mathlib.compute import packing

drawn = st.lists(st.integers(1, 64), min_size=1, max_size=50)


@given(drawn, st.integers(1, 8))
def test_every_document_is_in_one_row_that_has_room(lengths, sequences):
    for way in packing.WAYS:
        found = packing.rows(lengths, way=way, room=64, sequences=sequences)
        assert sorted(i for _, row in found for i in row) == list(range(len(lengths)))
        assert all(sum(lengths[i] for i in row) <= width <= 64 for width, row in found)
        waste = packing.slots(lengths, way=way, room=64, sequences=sequences)
        assert waste["tokens"] == sum(lengths) and waste["padding"] >= 0
    full = len(packing.first_fit(lengths, room=64))
    assert full <= 11 / 9 * -(-sum(lengths) // 64) + 1 or max(lengths) > 64 / 3


@given(drawn)
def test_rows_of_one_need_no_padding_and_blocks_no_pair_of_others(lengths):
    alone = packing.slots(lengths, way="padded", room=64)
    assert alone["padding"] == 0
    own = sum(n * (n + 1) // 2 for n in lengths)
    assert packing.pairs(lengths, way="packed", room=64) == own
    rows = len(packing.first_fit(lengths, room=64))
    assert packing.pairs(lengths, way="packed", room=64, blocks=False) == rows * 64 * 65 // 2


def test_lengths_of_a_corpus_waste_less_in_this_order():
    dice = random.Random(0)
    lengths = [min(2048, 1 + int(dice.lognormvariate(5.5, 1))) for _ in range(2000)]
    how = {"room": 2048, "sequences": 16}
    part = {}
    for way in packing.WAYS:
        slots = packing.slots(lengths, way=way, **how)
        part[way] = slots["padding"] / sum(slots.values())
    assert part["padded"] > 0.7 and part["sorted"] < 0.02 and part["packed"] < 0.01
    blocks, whole = (
        packing.pairs(lengths, way="packed", **how, blocks=blocks) for blocks in (True, False)
    )
    assert whole > 2.4 * blocks
    with pytest.raises(InputError, match="one of 2048, expected at most room = 1024"):
        packing.first_fit(lengths, room=1024)


def test_packed_documents_with_a_mask_of_blocks_are_as_if_alone():
    lengths, width = [5, 9, 2], 4
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 16, width, dtype=torch.double)
    which = torch.repeat_interleave(torch.arange(3), torch.tensor(lengths))
    causal = torch.ones(16, 16, dtype=torch.bool).tril()
    blocks = causal & (which[:, None] == which)
    assert blocks.sum() == packing.pairs(lengths, way="packed", room=16)
    assert causal.sum() == packing.pairs(lengths, way="packed", room=16, blocks=False)
    packed = F.scaled_dot_product_attention(q, k, v, attn_mask=blocks)
    pieces = zip(*(x.split(lengths, 1) for x in (q, k, v)), strict=True)
    with FlopCounterMode(display=False) as counter:
        alone = [(a @ b.mT * width**-0.5, c) for a, b, c in pieces]
        shut = [torch.ones(s.shape[-2:]).triu(1).bool() for s, _ in alone]
        parts = [
            s.masked_fill(m, -torch.inf).softmax(-1) @ c
            for (s, c), m in zip(alone, shut, strict=True)
        ]
    assert torch.allclose(packed, torch.cat(parts, 1))
    others = F.scaled_dot_product_attention(q, k, v, attn_mask=causal)
    assert not torch.allclose(others, packed), "without blocks documents see each other"
    assert counter.get_total_flops() == 4 * width * sum(n * n for n in lengths)
