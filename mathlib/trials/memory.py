"""What a small GPT keeps for each parameter and for each token, counted on torch's own tensors.

P parameters · h width · s tokens
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import activations
from mathlib.meters.saved import tensor_bytes
from mathlib.model import adam8bit, data, gpt
from mathlib.model.mixed_adam import MixedAdam
from mathlib.show import says

SHAPE = gpt.small(layers=3, width=128, vocab=len(data.vocabulary()), context=64)
P = params.count(SHAPE).total
Make = Callable[[Iterable[Tensor]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": torch.optim.Adam,
}


def loss(model: nn.Module) -> Tensor:
    """Of two sequences."""
    return model.loss(*data.batch(2, SHAPE.context))  # type: ignore[operator]


def resident(a_step: bool = False, **switches: Any) -> dict[str, float]:
    """Bytes a parameter of `MixedAdam` by kind, before the update or after it."""
    model = gpt.GPT(SHAPE)
    optimizer = MixedAdam(model, **switches)
    loss(model).backward()
    if a_step:
        optimizer.step()
        optimizer.zero_grad()
    return {kind: size / P for kind, size in optimizer.bytes().items()}


def in_mixed_precision(make: Make) -> dict[str, float]:
    """Bytes a parameter after a step of a bf16 model, whose 32-bit copy torch's class updates."""
    model = gpt.GPT(SHAPE).bfloat16()
    weights = list(model.parameters())
    master = [p.detach().float() for p in weights]
    optimizer = make(master)
    loss(model).backward()
    for copy, p in zip(master, weights, strict=True):
        copy.grad = p.grad.float()  # type: ignore[union-attr]
    optimizer.step()
    for copy, p in zip(master, weights, strict=True):
        copy.grad, p.data = None, copy.bfloat16()
    held = [t for state in optimizer.state.values() for t in state.values()]
    kinds = {"weights": weights, "gradients": [p.grad for p in weights], "master": master}
    kinds["states"] = [t for t in held if isinstance(t, Tensor) and t.dim()]
    return {kind: tensor_bytes(kept) / P for kind, kept in kinds.items()}


def last_stride(make: Make, steps: int = 200) -> float:
    """The last step down an even slope, in lengths of the first."""
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer, places, weight.grad = make([weight]), [0.0], torch.ones_like(weight)
    for _ in range(steps):
        optimizer.step()
        places.append(weight.item())
    return (places[-1] - places[-2]) / places[1]


def of_eight_bits() -> tuple[float, float]:
    """Bytes a parameter of 8-bit Adam's states; of weights that are quantised alike."""
    model = gpt.GPT(SHAPE)
    optimizer = adam8bit.Adam8bit(model.parameters())
    loss(model).backward()
    optimizer.step()
    in_int8 = [adam8bit.Blocks(w.detach(), True).kept() for w in model.parameters()]
    return optimizer.bytes() / P, tensor_bytes(in_int8) / P


def of_gradients(
    weights: torch.dtype, cast: bool = False, kept: torch.dtype | None = None
) -> float:
    """Bytes a parameter of the gradients that torch's backward leaves."""
    model = gpt.GPT(SHAPE).to(weights)
    for p in model.parameters() if kept else ():
        p.grad_dtype = kept  # type: ignore[attr-defined]
    with torch.autocast("cpu", torch.bfloat16, enabled=cast):
        made = loss(model)
    made.backward()
    return tensor_bytes([p.grad for p in model.parameters()]) / P


def layer_bytes(name: str, tokens: int = 4096) -> list[float]:
    """Bytes of a token in each layer, in units of h: norms in one kernel, and attention, too, but
    where a model has dropout.
    """
    m = specs.find_model(name)
    s, attention = min(tokens, m.context), "standard" if m.dropout else "flash"
    how: dict[str, Any] = {"tokens": s, "attention": attention}
    layers = [activations.layer(m, index=i, **how).total for i in range(m.layers)]
    return [one / s / m.width for one in layers]


def kept_by(name: str, tokens: int = 4096) -> list[str]:
    """A model's title, bytes of a token in a layer in units of h, a sequence in all layers, and the
    same where layers are recomputed.
    """
    m, each = specs.find_model(name), layer_bytes(name, tokens)
    s = min(tokens, m.context)
    again = m.layers * activations.layer(m, tokens=s, recompute="full").total
    sizes = (says.size(size) for size in (s * m.width * sum(each), again))
    return [m.title, f"{sum(each) / m.layers:.3g}", *sizes]
