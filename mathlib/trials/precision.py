"""A small GPT trained with matmuls in 16 bits: gradients that vanish, where losses end, and what
a step keeps.

P parameters · D tokens in the mean that goes backward
"""

from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from mathlib.memory import bits
from mathlib.memory.precision import bytes_per_parameter, number_type
from mathlib.meters.saved import saved_bytes
from mathlib.model import amp, data, gpt, quantise
from mathlib.model.adam8bit import Adam8bit
from mathlib.model.oracle import loss
from mathlib.show import says

SHAPE = gpt.small(layers=2, width=64, heads=4, vocab=len(data.vocabulary()), context=32)
P = sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
SEQUENCES, STEPS = 8, 80
PARTS = 2048  # micro-batches of a step, all alike: one is computed and stands for all
D = PARTS * SEQUENCES * SHAPE.context
BETAS = (0.9, 0.95)
HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def described(dtype: str) -> list[str]:
    """A format's bits of exponent and mantissa, its range, and a bound on its rounding error."""
    kind = number_type(dtype)
    limits = (says.number(x) for x in (kind.largest, bits.smallest(dtype)))
    error = f"{50 * kind.epsilon:.3g}%"
    return [dtype, f"{kind.exponent} + {kind.mantissa}", *limits, error]


@cache
def batches() -> list[tuple[Tensor, Tensor]]:
    """The micro-batches that every run sees, in this order."""
    return [data.batch(SEQUENCES, SHAPE.context, number) for number in range(STEPS)]


def fresh(seed: int = 0, lr: float = 1e-3) -> tuple[gpt.GPT, torch.optim.Adam]:
    """A new model and its Adam."""
    model = gpt.GPT(SHAPE, seed=seed)
    return model, torch.optim.Adam(model.parameters(), lr=lr, betas=BETAS)


def trained(
    dtype: torch.dtype | None = None,
    scaler: amp.LossScaler | None = None,
    parts: int = PARTS,
    seed: int = 0,
    steps: int = STEPS,
) -> list[float]:
    """The loss of each step, with matmuls in `dtype`."""
    model, optimizer = fresh(seed)
    return amp.train(model, batches()[:steps], optimizer, loss, dtype, scaler, parts)


def ending(losses: list[float]) -> float:
    """The mean of the last 20 losses."""
    return sum(losses[-20:]) / 20


@cache
def of_seeds() -> tuple[float, float]:
    """Where fp32 ends, and how far apart three seeds of it end."""
    ends = [ending(trained(seed=seed)) for seed in range(3)]
    return ends[0], max(ends) - min(ends)


# Gradients


@cache
def activation_gradients() -> dict[str, Tensor]:
    """What arrives at the results of a new model's linear layers, of a mean over D tokens."""
    model = gpt.GPT(SHAPE)
    caught: dict[str, Tensor] = {}

    def catch(name: str) -> Callable[..., None]:
        return lambda _, __, y: y.register_hook(partial(caught.__setitem__, name)) and None

    for name, layer in quantise.linears(model).items():
        layer.register_forward_hook(catch(name))
    loss(model, *batches()[0]).backward()
    return {name: g / PARTS for name, g in caught.items()}


def becomes(tokens: int = D, dtype: str = "fp16", scale: float = 1.0) -> dict[str, float]:
    """Shares of these gradients that a type makes zero, subnormal, or infinite."""
    found = [g * (D / tokens) for g in activation_gradients().values()]
    return amp.underflow(lambda: found, HALVES[dtype], scale)


def zero_at() -> tuple[float, float]:
    """The shares that fp16 makes zero at the queries and keys, and at the logits."""
    found = activation_gradients()
    queries_and_keys = torch.cat(
        [g.chunk(3, -1)[i] for n, g in found.items() for i in (0, 1) if "qkv" in n]
    )
    first, last = (
        (g.half() == 0).double().mean().item() for g in (queries_and_keys, found["head"])
    )
    return first, last


def by_size(scale: float = 1.0) -> dict[int, float]:
    """Shares of these gradients by power of two."""
    every = torch.cat([g.flatten() for g in activation_gradients().values()]) * scale
    powers = every[every != 0].abs().log2().floor().int().clamp(-48, 0)
    found, counts = powers.unique(return_counts=True)
    pairs = zip(found.tolist(), counts.tolist(), strict=True)
    return {power: round(count / len(powers), 3) for power, count in pairs}


@torch.no_grad()
def vanishing(vocab: int, *means: int) -> list[float]:
    """The share of a new model's gradients at the logits that fp16 makes zero, by tokens in the
    mean.
    """
    model = gpt.GPT(gpt.small(layers=2, vocab=vocab, context=32))
    x, y = data.batch(SEQUENCES, 32)
    g = amp.logit_gradients(model(x), y, 1)
    return [((g / tokens).half() == 0).double().mean().item() for tokens in means]


def frequencies_alone() -> float:
    """The loss of a model that knows how often each character occurs, and nothing else."""
    often = torch.cat([y.flatten() for _, y in batches()]).bincount().double()
    often /= often.sum()
    return -torch.xlogy(often, often).sum().item()


# Moments in 8 bits


def with_moments(kind: str, steps: int = STEPS) -> tuple[list[float], float]:
    """Losses with 8-bit Adam, and the farthest that its second step moves a weight."""
    model = gpt.GPT(SHAPE)
    optimizer = Adam8bit(model.parameters(), lr=1e-3, betas=BETAS, least=0, kind=kind)
    losses = amp.train(model, batches()[:1], optimizer, loss)
    before = [p.detach().clone() for p in model.parameters()]
    losses += amp.train(model, batches()[1:2], optimizer, loss)
    pairs = zip(model.parameters(), before, strict=True)
    moved = max((p - was).abs().max().item() for p, was in pairs)
    return losses + amp.train(model, batches()[2:steps], optimizer, loss), moved


# Bytes


def autocast_copies() -> float:
    """Bytes a parameter of the 16-bit weights that autocast makes in a forward."""
    model = gpt.GPT(SHAPE)
    with amp.Casts(torch.bfloat16) as casts:
        loss(model, *batches()[0])
    return casts.copied / P


def saved(sequences: int, width: int = SHAPE.width) -> tuple[int, int, int, int]:
    """Parameters of a model, and bytes that its forward saves for backward: in fp32, under
    autocast, and with bf16 weights.
    """
    shape = gpt.small(layers=2, width=width, heads=4, vocab=SHAPE.vocab, context=32)
    model, narrow = gpt.GPT(shape), gpt.GPT(shape).bfloat16()
    x, y = data.batch(sequences, 32)

    def cast() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return loss(model, x, y)

    wide = saved_bytes(lambda: loss(model, x, y), model)
    mixed = saved_bytes(lambda: F.cross_entropy(narrow(x).float().mT, y), narrow)
    size = sum(p.numel() for p in model.parameters())
    return size, wide, saved_bytes(cast, model), mixed


def of_fp32(sequences: int) -> list[float]:
    """A step's bytes as a share of fp32's: saved under autocast; states and saved together under
    autocast, with 18 bytes a parameter, and with 20.
    """
    size, wide, cast, mixed = saved(sequences)
    states = bytes_per_parameter("adam-fp32").total
    whole = states * size + wide
    sums = states * size + cast, 18 * size + mixed, 20 * size + mixed
    return [cast / wide, *(one / whole for one in sums)]


def even(width: int) -> list[float]:
    """Tokens for which 18 and 20 bytes a parameter need as much as fp32's 16."""
    sequences = 4
    size, wide, _, mixed = saved(sequences, width)
    return [more * size * sequences * 32 / (wide - mixed) for more in (2, 4)]
