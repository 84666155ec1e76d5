"""A training step of any PyTorch program by all meters at once, and the formulas beside them.

    with report.step(model) as found:
        ...  # forward, backward, optimizer: your own code
    print(found)

It counts nothing itself: FLOP are `flop`'s, bytes saved `live`'s, the peak `storages`' (on CUDA the
allocator's own), messages and bytes `wire`'s. What none of them can see is named, not guessed.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves

from mathlib.checks import InputError
from mathlib.compute import cost
from mathlib.meters import known_shape, live, rates, wire
from mathlib.meters.flop import FlopMeter
from mathlib.meters.storages import Storages
from mathlib.specs import find_device
from mathlib.traffic import comm
from mathlib.units import show

COLLECTIVES = {  # as torch calls them, and as the formulas do
    "allreduce_": "all-reduce",
    "_allgather_base_": "all-gather",
    "_reduce_scatter_base_": "reduce-scatter",
    "broadcast_": "broadcast",
}
UNSEEN = {
    "saved": "bytes saved, since gathered weights of FSDP look like activations",
    "again": "bytes saved for what is computed again, which checkpoint keeps by itself",
    "tcp": "bytes sent, which the system counts with gloo on Linux only",
}


@dataclass
class Found:
    """What one step did on this rank."""

    device: str = ""  # whose peak MFU is held against
    finish: Callable[[], object] = lambda: None  # waits for what is under way
    flop: Counter[str] = field(default_factory=Counter)  # by part
    saved: int | None = None  # most bytes that autograd held for backward at once
    peak: int = 0  # most bytes alive at once
    calls: wire.Counted = field(default_factory=wire.Counted)
    sent: int | None = None  # bytes that this rank's TCP connections sent
    seconds: float = 0.0
    with_meters: bool = True  # their own work is in the seconds
    formulas: dict[str, float] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time a step without meters, which are slow."""
        self.finish()
        start = time.perf_counter()
        yield
        self.finish()
        self.seconds, self.with_meters = time.perf_counter() - start, False

    @property
    def utilization(self) -> float:
        """Share of the device's 16-bit peak: of model FLOP where a formula knows them."""
        done = self.formulas.get("model FLOP") or self.flop.total()
        peak = find_device(self.device).half
        return cost.utilization(flop=done, seconds=self.seconds, devices=1, peak=peak)

    def rows(self) -> list[tuple[str, float | None, float | None]]:
        """What, how much, and how much by the formula where there is one."""
        measured = {"FLOP": self.flop.total(), "bytes saved": self.saved, "peak bytes": self.peak}
        for name, calls in sorted(self.calls.calls.items()):
            measured[f"{COLLECTIVES.get(name, name)}: calls"] = calls
            measured[f"{COLLECTIVES.get(name, name)}: bytes"] = self.calls.payload[name]
        if self.sent is not None:
            measured["bytes sent"] = self.sent
        return [(name, n, self.formulas.get(name)) for name, n in measured.items()]

    def __str__(self) -> str:
        lines = [f"{'':24}{'measured':>18}{'formula':>18}"]
        for name, *both in self.rows():
            cells = ["-" if n is None else f"{n:,.0f}" for n in both]
            lines.append(f"{name:24}{cells[0]:>18}{cells[1]:>18}")
        if self.device:
            kind = "MFU" if self.formulas.get("model FLOP") else "HFU"
            least = "at least " if self.with_meters else ""
            told = f"{kind} {least}{100 * self.utilization:.3g}% of {self.device}"
            lines.append(f"{show(self.seconds, 'second')} a step: {told}")
        return "\n".join([*lines, *(f"not known: {why}" for why in self.unseen)])


@contextmanager
def step(
    model: nn.Module, *, optimizer: torch.optim.Optimizer | None = None, device: str = ""
) -> Iterator[Found]:
    """Measure the training step inside the block; with a process group, on all ranks together.

    `optimizer`: its states count as alive from the start. `device`: a name in devices.toml.
    """
    place = next(model.parameters()).device
    found = Found(device and find_device(device).name, rates.waiter(place))
    module, shape = None, None
    try:
        module, shape = known_shape.architecture(model)
    except InputError as why:
        found.unseen.append(f"formulas, since {why}")
    with ExitStack() as stack:
        shapes = stack.enter_context(known_shape.forwards(module or model))
        sent = stack.enter_context(wire.tcp()) if _tells_tcp() else None
        kept = None if _sharded(model) else stack.enter_context(live.live(model))
        memory = stack.enter_context(Storages(model))
        for tensor in _held(model, optimizer):
            memory.follow(tensor)
        flop = stack.enter_context(FlopMeter(model))
        found.calls = stack.enter_context(wire.counted())
        if place.type == "cuda":
            torch.cuda.reset_peak_memory_stats(place)
        with found.timed():
            yield found
        found.with_meters = True
    found.flop = +flop.parts
    found.peak = torch.cuda.max_memory_allocated(place) if place.type == "cuda" else memory.peak
    if kept:
        found.saved = max(row["activations"] for row in kept.timeline().rows)
    found.unseen += _unseen(model, module or model)
    found.sent = sent.sent if sent else None
    if module and shape:
        found.formulas = known_shape.amounts(module, shape, shapes)
    if dist.is_initialized():
        found.formulas["bytes sent"] = _by_rings(found.calls)


def _sharded(model: nn.Module) -> bool:
    return any(isinstance(p, DTensor) for p in model.parameters())


def _unseen(model: nn.Module, module: nn.Module) -> list[str]:
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    reasons = {
        "saved": _sharded(model),
        "again": known_shape.recomputes(module) != "none",
        "tcp": ranks > 1 and not _tells_tcp(),
    }
    return [UNSEEN[name] for name, holds in reasons.items() if holds]


def _tells_tcp() -> bool:
    """Whether the system counts what this rank sends."""
    together = dist.is_initialized() and dist.get_world_size() > 1
    return together and dist.get_backend() == "gloo" and sys.platform == "linux"


def _held(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> list[Tensor]:
    """Gradients and states that are there before the step."""
    states = tree_leaves(list(optimizer.state.values())) if optimizer else []
    gradients = [p.grad for p in model.parameters()]
    return [leaf for leaf in [*states, *gradients] if isinstance(leaf, Tensor)]


def _by_rings(calls: wire.Counted) -> float:
    """Bytes that this rank sends if rings over all ranks do what was called."""
    N, payload = dist.get_world_size(), calls.payload
    return calls.sent + sum(
        comm.sent(COLLECTIVES[name], payload=payload[name], ranks=N)
        for name in payload
        if name in COLLECTIVES
    )
