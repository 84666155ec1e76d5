"""Mixed precision written out: matmuls in 16 bits, weights and sums in 32, and a loss scale that
keeps small gradients alive.

Casts does what torch.autocast does, LossScaler what torch.amp.GradScaler does; with Adam's three
numbers that makes 4 + 4 + 4 bytes a parameter that stay, and 2 that live from forward to backward.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mathlib.checks import InputError, flag, one_of, positive, whole
from mathlib.meters.saved import tensor_bytes

MATMULS = {
    F.linear,
    F.scaled_dot_product_attention,
    torch.matmul,
    Tensor.matmul,
    Tensor.__matmul__,
}
TYPES = (torch.float16, torch.bfloat16)


class Casts(TorchFunctionMode):
    """Inside the block, what goes into a matmul is cast to 16 bits and what goes into a loss to
    32; a weight is cast once and its copy kept until the block ends.

    Elsewhere the types decide: a 16-bit result added to a 32-bit one makes 32 bits, so the residual
    stream stays exact. `copied` says how many bytes the weights' copies took.

    Chapter: precision
    """

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = one_of("dtype", dtype, TYPES)
        self.copies: dict[Tensor, Tensor] = {}
        self.copied = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in MATMULS:
            args = tuple(self.narrow(x) for x in args)
        elif func is F.cross_entropy:
            args = (args[0].float(), *args[1:])
        return func(*args, **(kwargs or {}))

    def narrow(self, x: Any) -> Any:
        """A tensor in 16 bits; a weight's copy is made once."""
        if not isinstance(x, Tensor) or x.dtype != torch.float32:
            return x
        if not isinstance(x, nn.Parameter):
            return x.to(self.dtype)
        if x not in self.copies:
            self.copies[x] = x.to(self.dtype)
        return self.copies[x]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.copied = tensor_bytes(list(self.copies.values()))
        self.copies.clear()


class LossScaler:
    """Multiplies the loss before backward, divides the gradients after it, and leaves a step out
    whose gradients are not all finite.

    A static scale stays (Micikevicius et al. 2018); a dynamic one is halved by such a step, and
    doubled after `interval` good ones in a row, as torch.amp.GradScaler does it. Scales that are
    powers of two move exponents and round nothing.

    Chapter: precision (eq-scaled)
    """

    def __init__(self, scale: float = 2.0**16, dynamic: bool = True, interval: int = 2000):
        self.scale = positive("scale", scale)
        self.dynamic = flag("dynamic", dynamic)
        self.interval, self.good, self.skipped = whole("interval", interval), 0, 0

    def backward(self, loss: Tensor) -> None:
        (loss * self.scale).backward()

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer took its step."""
        gradients = gradients_of(optimizer)
        for g in gradients:
            g.mul_(1 / self.scale)
        finite = all(bool(g.isfinite().all()) for g in gradients)
        if finite:
            optimizer.step()
        self.update(finite)
        return finite

    def update(self, finite: bool) -> None:
        """The scale of the next step."""
        self.good = self.good + 1 if finite else 0
        self.skipped += not finite
        if not self.dynamic:
            return
        if not finite:
            self.scale /= 2
        elif self.good == self.interval:
            self.scale, self.good = 2 * self.scale, 0


def gradients_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Every gradient that the optimizer will use; refused where backward has left none."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    found = [p.grad for p in parameters if p.grad is not None]
    if not found:
        raise InputError("optimizer: has no gradients, expected a backward pass before the step")
    return found


def train(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    loss: Callable[..., Tensor],
    dtype: torch.dtype | None = None,
    scaler: LossScaler | None = None,
    micro_batches: int = 1,
) -> list[float]:
    """The loss of each step: in 32 bits, or with matmuls in `dtype`, with a scaler or without.

    A step has `micro_batches` of a batch, all alike: each backward is that of a loss divided by
    their number, and as many equal gradients add up to that number times the one.

    Chapter: precision
    """
    scaler, losses = scaler or LossScaler(1.0, dynamic=False), []
    m = whole("micro_batches", micro_batches)
    for batch in batches:
        optimizer.zero_grad()
        if dtype is None:
            value = loss(model, *batch)
        else:
            with Casts(dtype):
                value = loss(model, *batch)
        scaler.backward(value / m)
        for g in gradients_of(optimizer):
            g.mul_(m)
        scaler.step(optimizer)
        losses.append(value.item())
    return losses


def logit_gradients(logits: Tensor, targets: Tensor, tokens: int) -> Tensor:
    """What the mean loss over a step's D tokens wants of some logits: (p - y) / D, with p the
    softmax and y 1 for the right token.

    Chapter: precision (eq-logit-gradient)
    """
    y = F.one_hot(targets, logits.shape[-1])
    return (logits.double().softmax(-1) - y) / whole("tokens", tokens)


def underflow(
    gradient: Callable[[], Iterable[Tensor]], dtype: torch.dtype, scale: float = 1.0
) -> dict[str, float]:
    """Of numbers other than zero, the share that `dtype` has no number for, the share that it has
    only as a subnormal, with fewer bits, and the share that is too large.

    Chapter: precision (eq-smallest)
    """
    every = torch.cat([g.detach().flatten() for g in gradient()]).double()
    every = every[every != 0] * positive("scale", scale)
    kept, tiny = every.to(dtype), torch.finfo(dtype).tiny
    zero, large = kept == 0, ~kept.isfinite()
    below = (kept.abs() < tiny) & ~zero
    return {
        name: which.double().mean().item()
        for name, which in (("zero", zero), ("subnormal", below), ("too large", large))
    }
