"""Training two ranks that send less: loss, bytes, and what coding moves in memory.

N ranks · H steps from one meeting to the next
Every way starts from the same weights and reads the same tokens, so that losses may be compared.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib import launch
from mathlib.meters import kernels, wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import compression, local_sgd
from mathlib.parallel.plain.compression import Fp16, Full, Int8, PowerSGD, Sign, TopK
from mathlib.traffic import compressed

RANKS, SEQUENCES, STEPS, LATE = 2, 8, 100, 10  # LATE: steps at the end whose losses are averaged
SHAPE = gpt.small(layers=1, width=32, heads=2, context=32, vocab=len(data.vocabulary()))
CODES: dict[str, type[Full]] = {
    "fp32": Full,
    "fp16": Fp16,
    "int8": Int8,
    "sign": Sign,
    "top-k": TopK,
    "PowerSGD": PowerSGD,
}
FORGETS = ", no feedback"
LOSSY = ("int8", "sign", "top-k", "PowerSGD")


def code_of(name: str) -> type[Full]:
    """A code by its name; with FORGETS behind it, one that forgets what it left out."""
    kind = CODES[name.removesuffix(FORGETS)]
    if not name.endswith(FORGETS):
        return kind

    def __call__(self: Any, x: Tensor) -> Tensor:
        self.left = self.owned = 0.0
        return kind.__call__(self, x)

    return type(kind.__name__, (kind,), {"__call__": __call__})


def sgd(rate: float, momentum: float = 0.9) -> Callable[[Any], torch.optim.Optimizer]:
    """Momentum adds up what has arrived."""
    return lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=momentum)


class Ahead(compression.Compressed):
    """Momentum of each rank's own gradients, which is then coded."""

    def average(self) -> None:
        grads = [p.grad for p in self.parameters if p.grad is not None]
        if not hasattr(self, "speeds"):
            self.speeds = [torch.zeros_like(grad) for grad in grads]
        for p, speed, grad in zip(self.parameters, self.speeds, grads, strict=True):
            p.grad = speed.mul_(0.9).add_(grad).clone()
        super().average()


def _model(seed: int = 0) -> gpt.GPT:
    return gpt.GPT(SHAPE, seed=seed)


def _train(model: nn.Module, step: Callable[[], object], steps: int) -> list[float]:
    """The mean loss over the ranks, before each step."""
    found = []
    for number in range(steps):
        batch = oracle.my_part(data.batch(SEQUENCES, SHAPE.context, number))
        loss = oracle.loss(model, *batch)
        loss.backward()
        step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        found.append(mean.item())
    return found


def _coded(
    names: Sequence[str], steps: int, rate: float, momentum: float, seed: int, ahead: bool
) -> dict[str, list[float]]:
    found = {}
    for name in names:
        model, kind = _model(seed), Ahead if ahead else compression.Compressed
        way = kind(model, sgd(rate, momentum), code=code_of(name))
        found[name] = _train(model, way.step, steps)
    return found


@cache
def losses(
    names: tuple[str, ...] = (*CODES, *(name + FORGETS for name in LOSSY)),
    steps: int = STEPS,
    rate: float = 0.1,
    momentum: float = 0.9,
    seed: int = 0,
    ahead: bool = False,
) -> dict[str, list[float]]:
    """By code, the loss before each step of SGD; ahead: momentum of 0.9 before the code."""
    options = names, steps, rate, momentum, seed, ahead
    return launch.run(_coded, RANKS, *options, timeout=300)[0]


def late(course: Sequence[float]) -> float:
    """The mean loss of the last steps."""
    return sum(course[-LATE:]) / LATE


SIGNS: dict[str, dict[str, Any]] = {
    "0.1, momentum 0.9": {},
    "0.01, momentum 0.9": {"rate": 0.01},
    "0.1, 0.9 before the code": {"momentum": 0.0, "ahead": True},
    "0.1, no momentum": {"momentum": 0.0},
    "1.0, no momentum": {"rate": 1.0, "momentum": 0.0},
}


@cache
def signs(cases: tuple[str, ...] = tuple(SIGNS)) -> dict[str, list[float]]:
    """By learning rate and momentum: the late loss of fp32, of signs with feedback, and without."""
    names = ("fp32", "sign", "sign" + FORGETS)
    return {
        case: [late(found[name]) for name in names]
        for case in cases
        for found in [losses(names, **SIGNS[case])]
    }


def sign_rows() -> list[list[str]]:
    """The same, to be printed."""
    return [[case, *(f"{loss:.2f}" for loss in found)] for case, found in signs().items()]


SEEDS = (0, 1, 2, 3)


@cache
def over_seeds(seeds: tuple[int, ...] = SEEDS) -> dict[str, list[float]]:
    """By code, the late loss beyond that of fp32 for each seed of the weights."""
    names = ("int8", "int8" + FORGETS, "top-k", "top-k" + FORGETS, "sign" + FORGETS)
    found = [losses(("fp32", *names), seed=seed) for seed in seeds]
    return {name: [late(one[name]) - late(one["fp32"]) for one in found] for name in names}


def seed_rows() -> list[list[str]]:
    """The same, to be printed."""
    return [
        [name, *(f"{round(more, 2) + 0:.2f}" for more in found)]
        for name, found in over_seeds().items()
    ]


def loss_rows() -> list[list[str]]:
    """By code, the late loss with error feedback, and without it where that was run."""
    found = {name: f"{late(course):.2f}" for name, course in losses().items()}
    return [[name, found[name], found.get(name + FORGETS, "")] for name in CODES]


MEET: dict[str, dict[str, Any]] = {
    "every step": {"steps": 1},
    "local SGD": {"steps": 10},
    "DiLoCo": {"steps": 10, "outer": local_sgd.nesterov},
    "streaming": {"steps": 10, "outer": local_sgd.nesterov, "fragments": 2, "late": 1},
}


def meeting_rows() -> list[list[str]]:
    """By how the ranks meet: the late loss, and bytes of a step, on average and at most."""
    payload = 4 * sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
    rows = []
    for name, course in meetings().items():
        of = {"steps": MEET[name]["steps"], "fragments": MEET[name].get("fragments", 1)}
        sent_ = compressed.local_steps(payload=payload, ranks=RANKS, **of)
        rows.append([name, f"{late(course):.2f}", *(f"{n:,.0f}" for n in sent_.values())])
    return rows


def _met(names: Sequence[str], steps: int, rate: float) -> dict[str, list[float]]:
    found = {}
    for name in names:
        model = _model()
        way = local_sgd.LocalSteps(model, sgd(rate), **MEET[name])
        found[name] = _train(model, way.step, steps)
    return found


@cache
def meetings(
    names: tuple[str, ...] = tuple(MEET), steps: int = STEPS, rate: float = 0.1
) -> dict[str, list[float]]:
    """By how the ranks meet, the loss before each step."""
    return launch.run(_met, RANKS, names, steps, rate, timeout=300)[0]


# Bytes of a step


class Bytes(NamedTuple):
    """That a rank sends in a step, on average of the ranks."""

    formula: float
    program: float
    system: float


def formula(name: str, ranks: int) -> float:
    """Of the small model's gradients; two passes pad them to whole blocks for each rank."""
    shapes = [tuple(p.shape) for p in gpt.GPT(SHAPE).parameters()]
    n = sum(math.prod(shape) for shape in shapes)
    if name == "PowerSGD":
        matrices = [shape for shape in shapes if len(shape) == 2]
        rest = sum(math.prod(shape) for shape in shapes if len(shape) != 2)
        low = compressed.low_rank(shapes=matrices, rank=4, ranks=ranks)  # type: ignore[arg-type]
        return low + compressed.coded(numbers=rest, ranks=ranks, bits=32, block=None)
    if name == "top-k":
        return compressed.largest(kept=int(0.01 * n), ranks=ranks)
    bits = {"fp32": 32, "fp16": 16, "int8": 8, "sign": 1}[name]
    if bits >= 16:
        return compressed.coded(numbers=n, ranks=ranks, bits=bits, block=None)
    padded = n + -n % (ranks * compression.BLOCK)
    return compressed.coded(numbers=padded, ranks=ranks, bits=bits)


def _sent(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for name in names:
        model = _model()
        way = compression.Compressed(model, sgd(0.1), code=CODES[name])
        batch = oracle.my_part(data.batch(SEQUENCES, SHAPE.context))
        for _ in range(2):  # the first opens connections
            oracle.loss(model, *batch).backward()
            with wire.sent() as counted:
                way.average()
        found[name] = counted.program, counted.system
    return found


def sent(ranks: int = RANKS, names: Sequence[str] = tuple(CODES)) -> dict[str, Bytes]:
    """By code: formula, program and system."""
    by_rank = launch.run(_sent, ranks, list(names), timeout=120)
    means = {
        name: [sum(side) / ranks for side in zip(*(one[name] for one in by_rank), strict=True)]
        for name in names
    }
    return {name: Bytes(formula(name, ranks), *means[name]) for name in names}


# What a code leaves out, and what coding moves


def _left(names: Sequence[str], backwards: int) -> dict[str, list[float]]:
    """After each of many equal backwards, by how much the mean so far misses the true mean."""
    model, found = _model(), dict[str, list[float]]()
    oracle.loss(model, *oracle.my_part(data.batch(SEQUENCES, SHAPE.context))).backward()
    mine = oracle.flat_gradient(model)
    true = mine / dist.get_world_size()
    dist.all_reduce(true)
    for name in names:
        code, total, found[name] = code_of(name)(), torch.zeros_like(mine), []
        for number in range(1, backwards + 1):
            total += code(mine)
            found[name].append(((total / number - true).norm() / true.norm()).item())
    return found


@cache
def misses(
    names: tuple[str, ...] = ("sign", "sign" + FORGETS, "top-k", "top-k" + FORGETS),
    backwards: int = 100,
) -> dict[str, list[float]]:
    """By code, how far the mean of what it gave is from the gradient, relative to that.

    Chapter: links (eq-links-feedback, eq-links-telescope)
    """
    return launch.run(_left, RANKS, names, backwards, timeout=120)[0]


def _moved(numbers: int) -> dict[str, float]:
    side = math.isqrt(numbers)
    found: dict[str, float] = {}
    for name, kind in CODES.items():
        code, x = kind(), torch.randn(side, side, generator=torch.Generator().manual_seed(0))
        code(x)
        listed = kernels.kernels_of(lambda code=code, x=x: code(x))  # type: ignore[misc]
        found[name] = sum(kernel.moved for kernel in listed) / side**2
    return found


@cache
def moved(numbers: int = 512**2) -> dict[str, float]:
    """By code of the plain file, bytes that its kernels read and write for each number, with one
    rank, which sends nothing.
    """
    return launch.run(_moved, 1, numbers)[0]
