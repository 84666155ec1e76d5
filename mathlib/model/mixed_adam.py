"""Adam in mixed precision, with each of its copies a switch: the byte recipes of the memory
chapter, executed.

w weights (16 bit) · g gradient · m, v first and second moment · master fp32 weights
main fp32 gradients
"""

import torch
from torch import Tensor, nn

from mathlib.checks import InputError, one_of
from mathlib.meters.saved import tensor_bytes
from mathlib.model.stochastic import rounded

GRADIENTS = ("half", "main", "both")
ROUNDINGS = ("nearest", "stochastic")


def adam(
    weight: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    step: int,
    lr: float,
    betas: tuple[float, float],
) -> None:
    """One Adam update in place, in the precision of `weight` (Kingma and Ba 2015,
    algorithm 1).

    Chapter: memory (eq-adam)
    """
    b1, b2 = betas
    m.mul_(b1).add_(g, alpha=1 - b1)
    v.mul_(b2).addcmul_(g, g, value=1 - b2)
    root = (v.sqrt() / (1 - b2**step) ** 0.5).add_(1e-8)
    weight.addcdiv_(m, root, value=-lr / (1 - b1**step))


def _gradient(name: str, p: Tensor) -> Tensor:
    """A parameter's gradient; refused by the parameter's name where backward has left none."""
    if p.grad is None:
        raise InputError(f"{name}: has no gradient, expected a backward pass that reaches it")
    return p.grad


class MixedAdam:
    """Adam over a bf16 model; moments are fp32.

    `master` keeps fp32 weights as well; without them every step rounds to bf16.  `gradients`:
    "half" keeps those of the backward pass, "main" adds each to an fp32 one and drops it at once,
    "both" keeps the emptied 16-bit buffer as well. `rounding` says how a weight becomes bf16;
    stochastic dice are those of `seed`.
    """

    def __init__(
        self,
        model: nn.Module,
        master: bool = True,
        gradients: str = "half",
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        rounding: str = "nearest",
        seed: int = 0,
    ):
        self.rounding = one_of("rounding", rounding, ROUNDINGS)
        self.dice = torch.Generator().manual_seed(seed)
        self.gradients, self.lr, self.betas, self.steps = (
            one_of("gradients", gradients, GRADIENTS),
            lr,
            betas,
            0,
        )
        exact = {name: p.detach().float().clone() for name, p in model.named_parameters()}
        self.weights = dict(model.bfloat16().named_parameters())
        self.master = exact if master else {}
        self.m = {
            name: torch.zeros_like(p, dtype=torch.float32) for name, p in self.weights.items()
        }
        self.v = {
            name: torch.zeros_like(p, dtype=torch.float32) for name, p in self.weights.items()
        }
        self.main: dict[str, Tensor] = {}
        if gradients != "half":
            self.main = {name: torch.zeros_like(moment) for name, moment in self.m.items()}
            for name, p in self.weights.items():
                p.register_post_accumulate_grad_hook(lambda p, name=name: self._to_main(name, p))

    def _to_main(self, name: str, p: Tensor) -> None:
        gradient = _gradient(name, p)
        self.main[name].add_(gradient)
        if self.gradients == "both":
            gradient.zero_()  # the buffer stays, its content has moved on
        else:
            p.grad = None

    @property
    def state(self) -> dict[str, dict[str, Tensor]]:
        """What lives from step to step beside the weights, as a torch optimizer calls it."""
        return {"m": self.m, "v": self.v, "master": self.master, "main": self.main}

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        for name, p in self.weights.items():
            weight = self.master[name] if self.master else p.float()
            g = self.main[name] if self.main else _gradient(name, p).float()
            adam(weight, g, self.m[name], self.v[name], self.steps, self.lr, self.betas)
            p.copy_(weight if self.rounding == "nearest" else rounded(weight, self.dice))

    def zero_grad(self) -> None:
        for p in self.weights.values():
            p.grad = None
        for main in self.main.values():
            main.zero_()

    def bytes(self) -> dict[str, int]:
        """What is resident now, by the kinds of mathlib.memory.precision's recipes."""
        kinds = {
            "weights": list(self.weights.values()),
            "gradients": [p.grad for p in self.weights.values()],
            "main gradients": self.main,
            "master weights": self.master,
            "optimizer": [self.m, self.v],
        }
        return {kind: size for kind, things in kinds.items() if (size := tensor_bytes(things))}
