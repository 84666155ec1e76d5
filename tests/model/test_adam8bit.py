"""8-bit Adam: its map and its bytes."""

import pytest
import torch

from mathlib.memory import bits, precision
from mathlib.model import data, gpt
from mathlib.model.adam8bit import Adam8bit, Blocks
from mathlib.model.oracle import loss

SHAPE = gpt.small(width=64, context=16, vocab=len(data.vocabulary()))


def trained(make, steps=40):
    model = gpt.GPT(SHAPE)
    optimizer, losses = make(model.parameters()), []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(model, *data.batch(8, SHAPE.context, step))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses, optimizer


def test_the_dynamic_map_is_the_papers():
    for signed, least in ((True, 5.5e-7), (False, 3.25e-7)):
        found = bits.dynamic_map(signed=signed)
        assert len(set(found)) == 256 and max(found) == 1 and 0.0 in found
        assert min(x for x in found if x > 0) == pytest.approx(least)
        assert (min(found) == pytest.approx(-0.99296875)) == signed
    assert len(bits.linear_map(signed=True)) == 255 and len(bits.linear_map(signed=False)) == 256


@pytest.mark.parametrize("kind", ["dynamic", "linear"])
@pytest.mark.parametrize("signed", [True, False])
def test_each_value_becomes_the_nearest_of_the_map(kind, signed):
    values = torch.randn(3, 100)
    values = values if signed else values.square()
    kept = Blocks(values, signed, block=64, kind=kind)
    make = bits.dynamic_map if kind == "dynamic" else bits.linear_map
    numbers = torch.tensor(make(signed=signed))
    for i, (was, now) in enumerate(zip(values.flatten(), kept.values().flatten(), strict=True)):
        scale = values.flatten()[i // 64 * 64 : i // 64 * 64 + 64].abs().max()
        assert (now - was).abs() <= (numbers * scale - was).abs().min() + 1e-7
    assert kept.bytes.dtype == torch.uint8 and kept.bytes.numel() == 300
    assert kept.scales.numel() == 5


def test_an_empty_block_stays_empty():
    kept = Blocks(torch.zeros(10), signed=False)
    assert torch.equal(kept.values(), torch.zeros(10)) and not kept.bytes.any()


def test_bytes_are_those_of_the_formula():
    _, optimizer = trained(lambda p: Adam8bit(p, least=0), steps=1)
    sizes = [p.numel() for p in optimizer.param_groups[0]["params"]]
    recipe = precision.bytes_per_parameter("adam-8bit")
    assert recipe.amount("first moment") + recipe.amount("second moment") == 2
    scales = sum(-(-n // 256) for n in sizes)
    assert optimizer.bytes() == 2 * sum(sizes) + 2 * 4 * scales


def test_small_tensors_keep_theirs_in_32_bits():
    _, optimizer = trained(Adam8bit, steps=1)
    for p, state in optimizer.state.items():
        assert isinstance(state["m"], Blocks) == (p.numel() >= 4096)


def test_in_32_bits_it_is_torchs_adam():
    exact, _ = trained(lambda p: torch.optim.Adam(p, lr=3e-3, betas=(0.9, 0.95)), 5)
    wide, _ = trained(lambda p: Adam8bit(p, lr=3e-3, least=10**9), 5)
    assert wide == pytest.approx(exact, abs=1e-5)
