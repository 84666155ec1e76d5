"""What others printed of unequal and slow devices, beside the laws.

timm: "Distribute workload across GPUs from different hardware generations", pull request 580 of
huggingface/pytorch-image-models, April 2021.
"""

from typing import NamedTuple

from mathlib.schedule import waits

TIMM = {"equal": (200, 200, 200, 200), "unequal": (300, 300, 200, 200)}  # A6000 twice, 2080 Ti
PRINTED = {"equal": 2000, "unequal": 2500}  # images/s


class Timm(NamedTuple):
    """Images a second, with batches of 300 on the A6000s."""

    predicted: float  # if the 2080 Ti still decides when a step ends
    printed: float
    needed: float  # images/s of an A6000, so that it does


def timm() -> Timm:
    """A step ends when the 2080 Ti has its 200 images; the rest is how many others do by then."""
    step = sum(TIMM["equal"]) / PRINTED["equal"]
    return Timm(sum(TIMM["unequal"]) / step, PRINTED["unequal"], TIMM["unequal"][0] / step)


def chance(ranks: int, *, slower: float = 0.1, times: float = 1.5) -> float:
    """How often one rank may be so many times slower, until a job of so many is that much slower:
    `waits.step` = 1 + slower, found by halving.
    """
    low, high = 1e-12, 1.0
    for _ in range(100):
        middle = (low * high) ** 0.5
        step = waits.step(ranks=ranks, chance=middle, times=times)
        low, high = (low, middle) if step > 1 + slower else (middle, high)
    return low
