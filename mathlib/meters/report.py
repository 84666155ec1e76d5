"""A training step of any PyTorch program by all meters at once, and the formulas beside them.

    with report.step(model) as found:
        ...  # forward, backward, optimizer: your own code
    print(found)

It counts nothing itself: FLOP are `flop`'s, bytes saved and the peak `live`'s (on CUDA the
allocator's own), messages and bytes `wire`'s, and whose they are `whose` tells. What none of them
can see is named, not guessed.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from mathlib.checks import InputError
from mathlib.compute import cost
from mathlib.meters import known_shape, live, rates, whose, wire
from mathlib.meters.flop import FlopMeter
from mathlib.specs import find_device
from mathlib.traffic import comm
from mathlib.units import show

OUTSIDE = "outside of any"  # part, where none runs
HEADS = ("FLOP", "bytes saved", "peak bytes")  # amounts that have parts
COLLECTIVES = {  # as torch calls them, and as the formulas do
    "allreduce_": "all-reduce",
    "_allgather_base_": "all-gather",
    "_reduce_scatter_base_": "reduce-scatter",
    "broadcast_": "broadcast",
}
UNSEEN = {
    "again": "bytes saved for what is computed again, which checkpoint keeps by itself",
    "tcp": "bytes sent, which the system counts with gloo on Linux only",
}


@dataclass
class Found:
    """What one step did on this rank."""

    device: str = ""  # whose peak MFU is held against
    finish: Callable[[], object] = lambda: None  # waits for what is in flight
    flop: Counter[str] = field(default_factory=Counter)  # by part
    saved: Counter[str] = field(default_factory=Counter)  # most that autograd held, by part
    peak: int = 0  # most bytes alive at once
    kinds: dict[str, int] = field(default_factory=dict)  # of these, as far as the meter sees
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
        """What, how much, and how much by the formula where there is one; parts after their sum."""
        found: dict[str, float | None] = {"FLOP": self.flop.total()}
        found |= _parts("FLOP", self.flop)
        found |= {"bytes saved": self.saved.total()} | _parts("bytes saved", self.saved)
        found |= {"peak bytes": self.peak} | _parts("peak bytes", self.kinds)
        for (name, part), (calls, size) in sorted(self.calls.parts.items()):
            what = f"{COLLECTIVES.get(name, name)} {part}"
            found |= {f"{what}: calls": calls, f"{what}: bytes": size}
        if self.sent is not None:
            found["bytes sent"] = self.sent
        return [(name, n, self.formulas.get(name)) for name, n in found.items()]

    def __str__(self) -> str:
        inside = re.compile(f"^({'|'.join(HEADS)}) of ")
        rows = [(inside.sub("  ", name), both) for name, *both in self.rows()]
        wide = max(24, *(len(name) + 1 for name, _ in rows))
        lines = [f"{'':{wide}}{'measured':>18}{'formula':>18}"]
        for name, both in rows:
            cells = ["-" if n is None else f"{n:,.0f}" for n in both]
            lines.append(f"{name:{wide}}{cells[0]:>18}{cells[1]:>18}")
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
        kept = stack.enter_context(live.live(model))
        for kind, tensors in _held(model, optimizer).items():
            for tensor in tensors:
                kept.follow(tensor, kind)
        flop = stack.enter_context(FlopMeter(model, whose.part_of))

        def enters(module: nn.Module, part: str) -> None:
            for p in module.parameters(recurse=False):  # FSDP has gathered them
                kept.follow(p, "weights")
                flop.weights[live.own_rows(p).untyped_storage()._cdata] = part

        kept.whose = stack.enter_context(whose.running(model, enters))
        found.calls = stack.enter_context(wire.counted(whose.purpose))
        if place.type == "cuda":
            torch.cuda.reset_peak_memory_stats(place)
        with found.timed():
            yield found
        found.with_meters = True
    found.flop = +flop.parts
    found.saved, line = kept.by_part(), kept.timeline()
    found.peak = line.total(line.peak)
    found.kinds = {name: n for name, n in line.rows[line.peak].items() if n}
    if place.type == "cuda":
        found.peak = torch.cuda.max_memory_allocated(place)
    found.unseen += _unseen(module or model)
    found.sent = sent.sent if sent else None
    if module and shape:
        found.formulas = known_shape.amounts(module, shape, shapes)
    if dist.is_initialized():
        found.formulas |= _of_gradients(model, found.calls)
        found.formulas["bytes sent"] = _by_rings(found.calls)


def _parts(of: str, amounts: Mapping[str, int]) -> dict[str, float | None]:
    """Rows of the parts of an amount, the largest first, where there are two or more."""
    if len(amounts) < 2:
        return {}
    ordered = sorted(amounts.items(), key=lambda one: -one[1])
    return {f"{of} of {part or OUTSIDE}": n for part, n in ordered}


def _of_gradients(model: nn.Module, calls: wire.Counted) -> dict[str, float]:
    """Bytes of all gradients, which torch's classes exchange once; of all weights, which FSDP
    gathers before the forward. It pads rows that the ranks do not divide.
    """
    own = [p for p in model.parameters() if p.requires_grad]
    found = {}
    for name, part in calls.parts:
        which = own if part == whose.GRADIENTS else list(model.parameters())
        if part in (whose.GRADIENTS, f"{whose.WEIGHTS}, forward"):
            size = sum(p.numel() * p.element_size() for p in which)
            found[f"{COLLECTIVES.get(name, name)} {part}: bytes"] = float(size)
    return found


def _unseen(module: nn.Module) -> list[str]:
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    reasons = {
        "again": known_shape.recomputes(module) != "none",
        "tcp": ranks > 1 and not _tells_tcp(),
    }
    return [UNSEEN[name] for name, holds in reasons.items() if holds]


def _tells_tcp() -> bool:
    """Whether the system counts what this rank sends."""
    together = dist.is_initialized() and dist.get_world_size() > 1
    return together and dist.get_backend() == "gloo" and sys.platform == "linux"


def _held(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> dict[str, list[Tensor]]:
    """Gradients and states that are there before the step."""
    states = tree_leaves(list(optimizer.state.values())) if optimizer else []
    return {
        "gradients": [p.grad for p in model.parameters() if p.grad is not None],
        "optimizer": [leaf for leaf in states if isinstance(leaf, Tensor)],
    }


def _by_rings(calls: wire.Counted) -> float:
    """Bytes that this rank sends if rings over all ranks do what was called."""
    N, payload = dist.get_world_size(), calls.payload
    return calls.sent + sum(
        comm.sent(COLLECTIVES[name], payload=payload[name], ranks=N)
        for name in payload
        if name in COLLECTIVES
    )
