"""A trained small GPT: it goes on with weights in bf16, and its weights are quantised.

W weights [outputs, inputs]
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from mathlib.memory.precision import number_type
from mathlib.model import amp, data, gpt, mixed_adam, quantise, stochastic
from mathlib.model.oracle import flat_weights, loss
from mathlib.trials.precision import SHAPE, fresh

LAST, STEPS, MORE = 100, 300, 30
WAYS = {
    "fp32 master weights": {},
    "bf16 alone": {"master": False},
    "bf16, stochastic": {"master": False, "rounding": "stochastic"},
}
# Perplexity over that of 16 bits, weights quantised by llama.cpp, by files and models:
# https://github.com/ggml-org/llama.cpp/pull/6936, read on 29 November 2026
LLAMA_CPP = {
    "q8_0": {"Llama 2 7B": 1.000689, "Llama 3 8B": 1.000425},
    "q6_K": {"Llama 2 7B": 1.002406, "Llama 3 8B": 1.003490},
    "q4_K_M": {"Llama 2 7B": 1.014242, "Llama 3 8B": 1.028160},
    "q2_K": {"Llama 2 7B": 1.107955, "Llama 3 8B": 1.564849},
}
# GiB of the files of Llama 3 8B: README.md of llama.cpp's tools/perplexity
LLAMA_3_GIB = {"f16": 14.97, "q8_0": 7.96, "q6_K": 6.14, "q4_K_M": 4.58, "q2_K": 2.96}


@cache
@torch.enable_grad()
def finished() -> tuple[dict[str, Tensor], float, float]:
    """Weights of a model after 300 steps, its loss then, and what the last hundred gained.

    It is trained in 64 bits, so that it ends alike on every machine.
    """
    model, optimizer = fresh(lr=3e-3)
    model.double()
    parts = [range(STEPS - LAST), range(STEPS - LAST, STEPS)]
    ends = []
    for numbers in parts:
        amp.train(model, (data.batch(16, SHAPE.context, i) for i in numbers), optimizer, loss)
        ends.append(loss_of(model))
    weights = {name: value.clone() for name, value in model.float().state_dict().items()}
    return weights, loss_of(model), ends[0] - ends[1]


def again() -> gpt.GPT:
    """The trained model."""
    model = gpt.GPT(SHAPE)
    model.load_state_dict(finished()[0])
    return model


@torch.no_grad()
def loss_of(model: nn.Module) -> float:
    """Of 4,096 tokens that every model here is shown."""
    return loss(model, *data.batch(128, SHAPE.context, 9999)).item()


# Weights in bf16


@cache
def gone_on(way: str, lr: float) -> tuple[float, float]:
    """What 30 further steps gain, and the share of weights that a step leaves as they are."""
    model = again()
    optimizer, shares = mixed_adam.MixedAdam(model, lr=lr, **WAYS[way]), []  # type: ignore[arg-type]
    for number in range(MORE):
        optimizer.zero_grad()
        loss(model, *data.batch(8, SHAPE.context, 1000 + number)).backward()
        before = flat_weights(model).float()
        optimizer.step()
        shares.append((flat_weights(model).float() == before).double().mean().item())
    return finished()[1] - loss_of(model.float()), sum(shares) / MORE


def gains(lr: float) -> list[str]:
    """What each way gains of what master weights gain, to a tenth."""
    most = gone_on("fp32 master weights", lr)[0]
    shares = [gone_on(way, lr)[0] / most for way in WAYS]
    return [f"{lr:g}", *(f"{10 * round(10 * x)}%" if x > 0.15 else "under 15%" for x in shares)]


def stays(lr: float) -> tuple[float, float]:
    """The share of bf16 weights that Adam's first step leaves as they are: predicted, counted."""
    model = again()
    optimizer = mixed_adam.MixedAdam(model, master=False, lr=lr)
    before = flat_weights(model).float()
    said = stochastic.stays(before, before + lr)
    loss(model, *data.batch(8, SHAPE.context, 1000)).backward()
    optimizer.step()
    stayed = flat_weights(model).float() == before
    told, counted = (round(one.double().mean().item(), 3) for one in (said, stayed))
    return told, counted


# Weights in few bits


def of_blocks(model: nn.Module) -> dict[str, Tensor]:
    """Weights of the linear layers inside a model's blocks."""
    found = quantise.linears(model)
    return {name: layer.weight.detach() for name, layer in found.items() if name != "head"}


@cache
def inputs() -> dict[str, Tensor]:
    """What these layers get of 2,048 tokens."""
    return quantise.inputs_of(again(), data.batch(64, SHAPE.context, 7777)[0])


def added(make: Callable[[str, Tensor], Tensor]) -> float:
    """The loss that a model gains whose weights are made anew."""
    model = again()
    with quantise.weights(model, {name: make(name, W) for name, W in of_blocks(model).items()}):
        return loss_of(model) - finished()[1]


def nearest(bits: int, shared: str) -> float:
    """Loss added by weights that are rounded each by itself."""
    return added(lambda name, W: quantise.nearest(W, bits, shared, block=32).values)


def feedback(bits: int, shared: str) -> float:
    """Loss added by GPTQ."""
    return added(
        lambda name, W: quantise.with_feedback(W, inputs()[name], bits, shared, block=32).values
    )


def in_format(dtype: str, block: int = 0) -> tuple[float, float, float]:
    """Bits a weight with scales; root of the errors' squares over that of the weights' squares;
    loss added.
    """
    kind, layers = number_type(dtype), of_blocks(again())
    narrow = {name: quantise.in_blocks(W, dtype, block) for name, W in layers.items()}
    wrong = sum((narrow[name] - W).square().sum() for name, W in layers.items())
    error = math.sqrt(wrong / sum(W.square().sum() for W in layers.values()))
    bits = 8 * kind.bytes + (32 / block if block else 0)
    return bits, error, added(lambda name, _: narrow[name])


def described(dtype: str, block: int = 0) -> list[str]:
    """A format with its scale, its bits, and its error."""
    kind = number_type(dtype)
    bits, error, more = in_format(dtype, block)
    assert abs(more) < 0.01, f"{dtype} adds {more} nats"
    scale = f"{kind.scale or 'fp32'} for {kind.block or block}"
    return [dtype, scale, f"{bits:g}", f"{error:.1%}"]


def of_files() -> list[str]:
    """Bits a weight of llama.cpp's files, in their order."""
    return [f"{16 * LLAMA_3_GIB[name] / LLAMA_3_GIB['f16']:.1f}" for name in LLAMA_CPP]


def nats(value: float) -> str:
    """Loss added, in digits that another machine's sums do not change."""
    return "< 0.02" if abs(value) < 0.02 else f"{value:{'.1g' if value < 1 else '.1f'}}"


# Outliers


@torch.no_grad()
def rewritten(factor: float) -> gpt.GPT:
    """The same function, with one column of each layer's weights times a factor and its inputs
    divided by it.
    """
    model = again()
    blocks: Any = model.blocks
    for block in blocks:
        for norm, layer in ((block.norm1, block.attention.qkv), (block.norm2, block.mlp.up)):
            norm.weight[0] /= factor
            norm.bias[0] /= factor
            layer.weight[:, 0] *= factor
    return model


@contextmanager
def narrow_inputs(model: nn.Module, shared: str, keep: int = 0) -> Iterator[None]:
    """Inputs of the blocks' linear layers in int8, but for the first `keep` columns."""

    def narrow(_: nn.Module, given: tuple[Tensor, ...]) -> Tensor:
        rows = given[0].flatten(0, -2)
        left = quantise.nearest(rows[:, keep:], 8, shared).values
        return torch.cat([rows[:, :keep], left], 1).view_as(given[0])

    layers = quantise.linears(model)
    hooks = [layers[name].register_forward_pre_hook(narrow) for name in of_blocks(model)]
    yield
    for hook in hooks:
        hook.remove()


def int8_weights(shared: str, factor: float = 1.0) -> float:
    """Loss added by int8 weights, one column `factor` times as large."""
    model = rewritten(factor)
    narrow = {
        k: quantise.nearest(W, 8, shared, block=16).values for k, W in of_blocks(model).items()
    }
    with quantise.weights(model, narrow):
        return loss_of(model) - finished()[1]


@torch.no_grad()
def int8_inputs(shared: str, factor: float = 1.0, keep: int = 0) -> float:
    """Loss added by int8 weights with a scale a row and int8 inputs, one input `factor` times as
    large, the first `keep` inputs left wide.
    """
    model = rewritten(1 / factor)
    narrow = {k: quantise.nearest(W, 8, "row").values for k, W in of_blocks(model).items()}
    with quantise.weights(model, narrow), narrow_inputs(model, shared, keep):
        return loss_of(model) - finished()[1]
