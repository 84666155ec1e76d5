"""Stochastic rounding: up or down by chance, so that what is lost now is won back on average; and
what rounding to nearest loses.

An fp32 and a bf16 begin with the same 16 bits; the 16 that bf16 lacks say how far a number lies on
the way from one bf16 to the next.
"""

import torch
from torch import Tensor

from mathlib.checks import InputError


def rounded(exact: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """fp32 numbers as bf16, up or down at random, so that the mean is the number (Gupta
    et al. 2015): a random number below 2**16 is added to the pattern, and its lower 16
    bits are cut.

    Chapter: precision (eq-stochastic)
    """
    if exact.dtype != torch.float32:
        raise InputError(f"exact: has {exact.dtype}, expected torch.float32")
    noise = torch.randint(2**16, exact.shape, generator=generator, device=exact.device)
    pattern = exact.contiguous().view(torch.int32) + noise.to(torch.int32)
    return (pattern & -(2**16)).view(torch.float32).bfloat16()


def stays(before: Tensor, exact: Tensor) -> Tensor:
    """Which bf16 weights, rounded to nearest, stay where they are when a step would make them
    `exact`: those whose step is less than half of 2**(floor(log2 |w|) - 7).

    Chapter: precision (eq-lost-step)
    """
    spacing = 2.0 ** (before.abs().log2().floor() - 7)
    return (exact - before).abs() < spacing / 2
