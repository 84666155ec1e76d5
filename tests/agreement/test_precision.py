"""Formula beside run: where sums stall, what fp16 loses, the bytes of every copy."""

import math

import pytest
import torch

from mathlib.memory import bits, precision, rounded_sums
from mathlib.model import amp, data, gpt, mixed_adam, quantise
from mathlib.model.adam8bit import Adam8bit
from mathlib.model.oracle import loss

SHAPE = gpt.small(width=64, context=16, vocab=len(data.vocabulary()), tied=False)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("step", [0.0007, 0.001, 0.03, 0.25])
def test_torch_stops_where_the_formula_says(name, step):
    total, before = torch.zeros((), dtype=DTYPES[name]), -1.0
    while total.item() != before:
        before = total.item()
        total += step
    assert before == rounded_sums.stalls_at(step, name)


@pytest.mark.parametrize("name", DTYPES)
def test_torch_loses_what_lies_at_half_the_smallest(name):
    least = bits.smallest(name)
    for share, kept in ((0.5, 0.0), (0.51, least), (1.0, least)):
        assert torch.tensor(least * share, dtype=torch.double).to(DTYPES[name]).item() == kept


def side_by_side(products):
    """Sums in 16 bits, 32 of them at a time."""
    lanes = products[:32].clone()
    for more in products[32:].split(32):
        lanes += more
    while len(lanes) > 1:
        lanes = lanes[::2] + lanes[1::2]
    return lanes[0]


def test_products_are_added_up_in_32_bits():
    """Ones would not tell: side by side their sums come out right in 16 bits, too."""
    draw = torch.Generator().manual_seed(0)
    for dtype in DTYPES.values():
        a, b = (torch.randn(64, 8192, generator=draw).to(dtype) for _ in range(2))
        once = (a.double() @ b.double().T).to(dtype)
        assert (a @ b.T == once).double().mean() > 0.98
        assert (side_by_side(a.T * b.T) == once.diagonal()).double().mean() < 0.3
        assert side_by_side(torch.ones(8192, 1, dtype=dtype)).item() == 8192


def test_bytes_of_the_copies():
    model = gpt.GPT(SHAPE)
    numbers = sum(p.numel() for p in model.parameters())
    keeper = mixed_adam.MixedAdam(model)
    loss(model, *data.batch(2, SHAPE.context)).backward()
    held = keeper.bytes()
    wanted = precision.bytes_per_parameter("mixed-adam")
    assert sum(held.values()) == numbers * wanted.total
    assert held["weights"] + held["master weights"] == 6 * numbers
    eight = Adam8bit(gpt.GPT(SHAPE).parameters(), least=0, block=2048)
    for p in eight.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    eight.step()
    per = precision.bytes_per_parameter("mixed-adam-8bit")
    states = ("first moment", "second moment", "scales")
    assert eight.bytes() / numbers == pytest.approx(sum(map(per.amount, states)), rel=0.01)


def test_a_packed_weight_costs_its_bits_and_its_share_of_a_scale():
    weight = torch.randn(32, 64)
    for width in (8, 4):
        kept = quantise.nearest(weight, width, "block", block=16)
        share = precision.scale_bits(block=16, scale_bits=16)
        assert 8 * kept.bytes / weight.numel() == width + share


def test_gradients_at_the_logits_are_as_small_as_the_formula_says():
    vocab, tokens = SHAPE.vocab, 4 * SHAPE.context
    caught = []
    model = gpt.GPT(SHAPE)
    model.head.register_forward_hook(lambda _, __, y: y.register_hook(caught.append) and None)
    loss(model, *data.batch(4, SHAPE.context)).backward()
    typical = caught[0].abs().median().item()
    assert typical == pytest.approx(1 / (vocab * tokens), rel=0.1)
    vanish = bits.smallest("fp16") / 2 / typical
    for scale, share in ((0.5 * vanish, 0.9), (2 * vanish, 0.0)):
        found = amp.underflow(lambda: caught, torch.float16, scale)["zero"]
        assert found >= share if share else found < 0.05
    assert math.isclose(caught[0].sum().item(), 0, abs_tol=1e-6)
