"""What the tests of DDP share, in a module that ranks can import."""

import torch
import torch.distributed as dist
from torch import nn

from mathlib.model import oracle


class Chain(nn.Module):
    """Layers a, b, c, defined in one order and used in another."""

    def __init__(self, width: int = 8, use: str = "abc"):
        super().__init__()
        self.use = use
        for name in "abc":
            self.add_module(name, nn.Linear(width, width))

    def forward(self, x):
        for name in self.use:
            x = self.get_submodule(name)(x)
        return x


ONE_LAYER = 4 * (8 * 8 + 8)  # bytes
FLOATS = [torch.float32, torch.float64]
# For runs in fp64, where only the order of summation differs. A key's bias has no gradient but
# rounding noise, about 1e-18, which Adam divides by its epsilon of 1e-8: hence atol.
EXACT = {"rtol": 1e-9, "atol": 1e-11}


def step(model: nn.Module) -> None:
    model(torch.ones(2, 8) * (1 + dist.get_rank())).sum().backward()


class Branches(oracle.Branches):
    """And a branch that nobody takes."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(4, 4)


WAY = {0: "left", 1: "right"}
