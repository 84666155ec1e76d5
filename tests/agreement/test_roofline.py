"""Formula | program: bytes and FLOP of every kernel of a real step, as a meter lists them."""

from collections import Counter

import pytest
import torch

from mathlib.compute import operations, roofline
from mathlib.meters.kernels import REST, kernels_of
from mathlib.model import gpt
from mathlib.model.gpt import GPT

BARE = {"qkv_bias": False, "output_bias": False, "mlp_bias": False, "tied": False}
SHAPE = gpt.small(layers=3, width=64, heads=4, vocab=300, context=48, **BARE)


def real_step(attention="plain"):
    model, tokens = GPT(SHAPE, attention), torch.arange(2 * 48).view(2, 48)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step():
        model.loss(tokens, tokens).backward()
        optimizer.step()

    step()
    optimizer.zero_grad()
    return kernels_of(step), sum(p.numel() for p in model.parameters())


def by_kind(found):
    moved, flop = Counter(), Counter()
    for one in found:
        moved[one.kind] += one.moved
        flop[one.kind] += one.flop
    return moved, flop


def formula(**asked):
    asked = {"micro_batch": 2, "bytes_per_element": 4, "fused": False} | asked
    moved = Counter()
    for one in operations.step(SHAPE, **asked):
        part = "products" if one.product and one.name != "flash attention" else one.part
        moved[one.name if one.name == "flash attention" else part] += one.moved * one.times
    return moved, roofline.totals(operations.step(SHAPE, **asked)).total


def test_products_move_what_the_formula_says_to_the_byte():
    (moved, flop), (wanted, total) = by_kind(real_step()[0]), formula(attention="standard")
    assert moved["products"] == wanted["products"] and flop["products"] == total
    assert moved["activation function"] == wanted["activation function"]
    assert moved["loss"] == pytest.approx(wanted["loss"], rel=0.01)  # and a number a row
    assert moved["norms"] == pytest.approx(wanted["norms"], rel=0.05)  # statistics and weights
    assert moved["softmax"] < wanted["softmax"]  # the scale is a kernel called mul


def test_the_passes_of_the_core_are_seven_forward_and_backward():
    found, _ = real_step()
    scores = 4 * 2 * 4 * 48 * 48  # bytes: b a s s numbers of four
    inside = [one for one in found if one.shape[-2:] == (48, 48) and not one.flop]
    passes = sum(one.moved for one in inside if one.kind != REST or one.name == "mul")
    wanted, _ = formula(attention="standard")
    assert wanted["softmax"] == 3 * (6 + 7) * scores
    assert passes == pytest.approx(wanted["softmax"], rel=0.05)  # masks of a byte


def test_flash_moves_no_scores():
    plain, flash = (by_kind(real_step(kind)[0])[0] for kind in ("plain", "flash"))
    wanted, _ = formula(attention="flash")
    assert flash["softmax"] == 0 < plain["softmax"]
    assert flash["flash attention"] == pytest.approx(wanted["flash attention"], rel=0.1)


def test_the_update_moves_28_bytes_a_parameter():
    found, P = real_step()
    (wanted,) = operations.adam(parameters=P, weight_bytes=4)
    assert by_kind(found)[0]["optimizer"] == pytest.approx(wanted.moved, rel=1e-3)
