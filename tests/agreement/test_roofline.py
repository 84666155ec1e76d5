"""Formula | program: bytes and FLOP of every kernel of a real step, as a meter lists them."""

import pytest
import torch

from mathlib.compute import operations, roofline
from mathlib.meters.kernels import kernels_of
from mathlib.model.gpt import GPT
from mathlib.trials.roofline_core import SEQUENCES, SHAPE, counted

ASKED = {"micro_batch": SEQUENCES, "bytes_per_element": 4, "fused": False}


def real_step(attention="plain"):
    model = GPT(SHAPE, attention)
    tokens = torch.arange(SEQUENCES * SHAPE.context).view(SEQUENCES, -1)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step():
        model.loss(tokens, tokens).backward()
        optimizer.step()

    step()
    optimizer.zero_grad()
    return kernels_of(step)


def test_kernels_move_what_the_formula_says():
    listed = real_step()
    pairs, copies = counted(listed)
    for kind, (wanted, moved) in pairs.items():
        exact = kind in ("matmuls", "residual", "activation function")
        assert moved == pytest.approx(wanted, rel=0 if exact else 0.01), kind  # masks, statistics
    assert 0 < copies < 0.1
    done = operations.step(SHAPE, attention="standard", **ASKED)
    assert sum(one.flop for one in listed) == roofline.totals(done).total


def test_flash_moves_no_scores():
    listed = real_step("flash")
    assert not [one for one in listed if one.kind == "softmax"]
    moved = sum(one.moved for one in listed if one.kind == "flash attention")
    done = operations.step(SHAPE, attention="flash", **ASKED)
    wanted = sum(one.times * one.moved for one in done if one.name == "flash attention")
    assert moved == pytest.approx(wanted, rel=0.1)
