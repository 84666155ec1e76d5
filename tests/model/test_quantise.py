"""Weights as whole numbers: nearest, by scales of three sizes, and with errors passed on."""

import pytest
import torch
from torch import nn

from mathlib.checks import InputError
from mathlib.memory import bits
from mathlib.model import data, gpt, quantise


@pytest.fixture
def layer():
    dice = torch.Generator().manual_seed(0)
    weight = torch.randn(48, 64, generator=dice)
    mix = torch.randn(64, 64, generator=dice) / 8 + torch.eye(64)
    return weight, torch.randn(500, 64, generator=dice) @ mix


@pytest.mark.parametrize("shared", quantise.SHARED)
@pytest.mark.parametrize("width", quantise.BITS)
def test_nearest_is_nearest(layer, shared, width):
    weight, _ = layer
    kept = quantise.nearest(weight, width, shared, block=16)
    most = quantise.largest(width)
    assert kept.numbers.abs().max() <= most
    scale = {"tensor": 3072, "row": 64, "block": 16}[shared]
    parts = weight.reshape(-1, scale)
    step = parts.abs().amax(1, keepdim=True) / most
    assert ((kept.values.reshape(-1, scale) - parts).abs() <= step / 2 * 1.001).all()


def test_a_row_is_the_librarys_block(layer):
    weight, _ = layer
    kept = quantise.nearest(weight, 8, "row")
    own = bits.block(weight[0].tolist(), "int8")
    assert kept.numbers[0].tolist() == [bits.decode(p, "int8") for p in own.patterns]


@pytest.mark.parametrize("dtype", ["mxfp8", "mxfp6", "mxfp4"])
def test_block_formats_are_the_librarys(layer, dtype):
    weight = 0.05 * layer[0]
    found = quantise.in_blocks(weight, dtype).reshape(-1, 32)
    for row, was in zip(found, weight.reshape(-1, 32), strict=True):
        assert row.tolist() == pytest.approx(bits.block(was.tolist(), dtype).values, abs=0)


@pytest.mark.parametrize("dtype", ["nf4", "int4"])
def test_other_types_take_a_block_with_fp32_scales(layer, dtype):
    found = quantise.in_blocks(layer[0], dtype, block=64)
    for row, was in zip(found, layer[0], strict=True):
        assert row.tolist() == pytest.approx(bits.block(was.tolist(), dtype).values, rel=1e-5)


def test_nvfp4_keeps_small_weights_by_a_scale_of_the_tensor(layer):
    weight = 1e-4 * layer[0]
    own, four = (quantise.in_blocks(weight, name) for name in ("nvfp4", "mxfp4"))
    off = [((found - weight).norm() / weight.norm()).item() for found in (own, four)]
    assert off[0] < 0.11 and off[0] < off[1]
    first = weight[0, :16]
    unit = (weight.abs().max() / 6 / 448).item()
    scale = bits.rounded(first.abs().max().item() / 6 / unit, "fp8_e4m3") * unit
    said = [scale * bits.rounded(w / scale, "fp4_e2m1") for w in first.tolist()]
    assert own[0, :16].tolist() == pytest.approx(said, rel=1e-4)


@pytest.mark.parametrize("shared", quantise.SHARED)
@pytest.mark.parametrize("width", [3, 4])
def test_feedback_lessens_the_error_of_the_output_and_not_that_of_the_weights(layer, shared, width):
    weight, inputs = layer
    plain = quantise.nearest(weight, width, shared, block=16).values
    fed = quantise.with_feedback(weight, inputs, width, shared, block=16).values
    off = [(inputs @ (other - weight).T).norm() for other in (plain, fed)]
    assert off[1] < 0.8 * off[0]
    assert (fed - weight).norm() > (plain - weight).norm()


def test_without_anything_to_correlate_feedback_is_rounding():
    weight, inputs = torch.randn(8, 16), torch.eye(16)
    plain, fed = (
        quantise.nearest(weight, 4),
        quantise.with_feedback(weight, inputs, 4),
    )
    assert torch.equal(plain.numbers, fed.numbers)


def test_what_is_taken_back_stays_within_the_numbers():
    """The first input is three times the second, whose weight is the largest already and would
    have to take three times what the first has lost.
    """
    second = torch.randn(100, 1, generator=torch.Generator().manual_seed(0))
    found = quantise.with_feedback(
        torch.tensor([[0.49, 1.0]]), torch.cat([3 * second, second], 1), 2
    )
    assert found.numbers.tolist() == [[0, 1]]


def test_each_column_is_the_least_squares_answer(layer):
    """Column by column, the best correction of the columns to come, solved directly."""
    weight, inputs = (x.double() for x in layer)
    W, H = weight[:3].clone(), inputs.T @ inputs
    H += 0.01 * H.diagonal().mean() * torch.eye(64, dtype=torch.double)
    scales = quantise.scales_of(layer[0][:3], 4, "row").double()
    for j in range(64):
        q = ((W[:, j] / scales[:, 0]).round().clamp(-7, 7) * scales[:, 0])[:, None]
        error, rest = W[:, j : j + 1] - q, slice(j + 1, 64)
        if j < 63:
            W[:, rest] += error @ torch.linalg.solve(H[rest, rest], H[rest, j : j + 1]).T
        W[:, j : j + 1] = q
    found = quantise.with_feedback(layer[0][:3], layer[1], 4)
    assert (found.values.double() - W).abs().max() < 1e-5


def test_a_model_gets_its_weights_back():
    shape = gpt.small(width=32, context=16, vocab=len(data.vocabulary()))
    model, (tokens, targets) = gpt.GPT(shape), data.batch(2, shape.context)
    seen = quantise.inputs_of(model, tokens)
    assert set(seen) == set(quantise.linears(model)) and seen["head"].shape == (32, 32)
    before = model.loss(tokens, targets).item()
    rough = {
        name: quantise.nearest(layer.weight.detach(), 2, "tensor").values
        for name, layer in quantise.linears(model).items()
    }
    with quantise.weights(model, rough):
        assert model.loss(tokens, targets).item() != before
    assert model.loss(tokens, targets).item() == before


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="block"):
        quantise.nearest(torch.ones(2, 10), 4, "block", block=4)
    with pytest.raises(InputError, match="bits"):
        quantise.nearest(torch.ones(2, 10), 5)
    with pytest.raises(InputError, match="block"):
        quantise.in_blocks(torch.ones(3, 5), "mxfp4")
    with pytest.raises(InputError, match="block"):
        quantise.in_blocks(torch.ones(3, 5), "nf4")
    with pytest.raises(InputError, match="shared"):
        quantise.nearest(torch.ones(2, 10), 4, "column")
    assert not quantise.linears(nn.Sequential())
