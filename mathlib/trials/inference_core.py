"""One core of a processor decodes: the seconds of its steps, and what two rates of it foresee.

B sequences that are written at once. Seconds are those in which the core works for this thread;
the batches take turns, and each keeps its least.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mathlib import specs
from mathlib.memory import decode_time
from mathlib.model import gpt
from mathlib.model.decoding import Decoder
from mathlib.specs import Model

SHAPE = gpt.small(layers=4, width=1024, heads=16, vocab=1024, context=16)  # 200 MB in fp32
BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Core(NamedTuple):
    reads: float  # bytes a second
    multiplies: float  # FLOP a second, of large squares
    thin: dict[int, float]  # FLOP a second, of the model's matrices with B rows
    seconds: dict[int, float]  # of a decoding step of B sequences

    def foreseen(self, B: int, shape: Model = SHAPE, thin: bool = False) -> float:
        """Seconds of a step by the formula, with the rate of squares or of so few rows."""
        here = specs.Device("here", {"bf16": self.multiplies}, 8e9, self.reads, 0, 0)
        return decode_time.step(
            shape,
            here,
            sequences=B,
            past=2,
            bytes_per_parameter=4,
            bytes_per_element=4,
            achieved=self.thin[B] if thin else None,
        ).total

    def lines(self) -> dict[str, list[tuple[int, float]]]:
        """Tokens a second by batch: foreseen in both ways, and measured."""
        ways = {"formula": self.foreseen, "its thin matmuls": lambda B: self.foreseen(B, thin=True)}
        ways["measured"] = self.seconds.__getitem__
        return {name: [(B, B / way(B)) for B in self.seconds] for name, way in ways.items()}

    def off(self) -> float:
        """How far the run is from what its thin matmuls foresee, at most."""
        ratios = [self.seconds[B] / self.foreseen(B, thin=True) for B in self.seconds]
        return max(max(x, 1 / x) for x in ratios) - 1


def least(jobs: dict[int, Callable[[], object]], rounds: int) -> dict[int, float]:
    """Seconds of each job, the least of some rounds in which they take turns."""
    found = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.thread_time()
            job()
            found[name] = min(found[name], time.thread_time() - start)
    return found


def ready(model: gpt.GPT, B: int) -> Callable[[], Tensor]:
    """A step of B sequences that have two tokens or more in their cache."""
    decoder, new = Decoder(model), torch.zeros(B, 1, dtype=torch.long)
    decoder(new)
    return lambda: decoder(new)


def bare(matrices: Sequence[Tensor], B: int) -> Callable[[], None]:
    """The matmuls of a step with nothing around them."""

    def work() -> None:
        for w in matrices:
            nn.functional.linear(torch.ones(B, w.shape[1]), w)

    return work


@torch.no_grad()
def core(shape: Model = SHAPE, batches: tuple[int, ...] = BATCHES, rounds: int = 5) -> Core:
    """What the core does, measured: as much as possible in the same seconds."""
    model, side = gpt.GPT(shape).eval(), shape.width
    matrices = [w for w in model.parameters() if w.dim() == 2 and len(w) >= side]
    jobs: dict[int, Callable[[], object]] = {B: ready(model, B) for B in batches}
    jobs |= {-B: bare(matrices, B) for B in batches}
    found = least(jobs, rounds)
    numbers, square = torch.ones(2**26), torch.ones(side, side)
    summed, squared = least({0: numbers.sum, 1: lambda: square @ square}, rounds).values()
    weights = sum(w.numel() for w in matrices)
    reads = max(numbers.nbytes / summed, 4 * weights / found[-1])
    thin = {B: 2 * B * weights / found[-B] for B in batches}
    return Core(reads, 2 * side**3 / squared, thin, {B: found[B] for B in batches})
