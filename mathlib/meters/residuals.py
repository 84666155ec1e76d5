"""From the bytes that a formula foresees to the bytes that are gone from a CUDA device: what each
difference is called.

    with residuals.step("cuda", foreseen=most) as found:
        ...  # forward, backward, optimizer
    print(found.held.parts())

A CPU keeps no such account, and is refused.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from mathlib.checks import InputError
from mathlib.parts import Parts

TRACED = 100_000  # events of the allocator that a recording keeps


@dataclass(frozen=True)
class Held:
    """Bytes on one device, from the inside out; all but `foreseen` and `workspace` are peaks."""

    foreseen: float
    workspace: int  # what the library of matmuls keeps for itself, through the same allocator
    requested: int  # asked for by tensors and workspaces
    allocated: int  # handed out, in blocks
    reserved: int  # taken from the device by the allocator
    used: int  # gone from the device, by its own account

    def parts(self) -> Parts:
        """What is gone from the device; a formula that foresees too much shows as less than 0."""
        return Parts(
            "gone from the device",
            "byte",
            {
                "foreseen": self.foreseen,
                "tensors not foreseen": self.requested - self.workspace - self.foreseen,
                "workspace of matmuls": self.workspace,
                "rounding to blocks": self.allocated - self.requested,
                "fragments and spare blocks": self.reserved - self.allocated,
                "context and kernels": self.used - self.reserved,
            },
        )


@dataclass
class Found:
    """What a step left; empty inside the block."""

    held: Held | None = None
    timeline: list[int] = field(default_factory=list)  # bytes allocated after every event


def timeline(events: Sequence[dict[str, Any]], start: int = 0) -> list[int]:
    """Bytes allocated after every event of a recording, which began with `start`."""
    total, line = start, []
    for event in events:
        if event["action"] == "alloc":
            total += event["size"]
        elif event["action"] == "free_completed":  # asked for before, done now
            total -= event["size"]
        else:
            continue
        line.append(total)
    return line


def _workspace(place: torch.device) -> int:
    """Bytes that go when the library of matmuls gives up what it keeps."""
    before = torch.cuda.memory_allocated(place)
    torch._C._cuda_clearCublasWorkspaces()
    return before - torch.cuda.memory_allocated(place)


@contextmanager
def step(device: str, *, foreseen: float) -> Iterator[Found]:
    """Account for the memory of the block, whose peak a formula puts at `foreseen` bytes.

    Nobody else may use the device: what it says is gone counts for all who do.
    """
    place = torch.device(device)
    if place.type != "cuda":
        raise InputError(f'device = "{device}": only a CUDA device keeps an account of its memory')
    found = Found()
    torch.cuda.synchronize(place)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(place)
    start = torch.cuda.memory_allocated(place)
    torch.cuda.memory._record_memory_history(max_entries=TRACED, stacks="python")
    try:
        yield found
        torch.cuda.synchronize(place)
        number = torch.cuda.current_device() if place.index is None else place.index
        events = torch.cuda.memory._snapshot()["device_traces"][number]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    found.timeline = timeline(events, start)
    most = torch.cuda.memory_stats(place)
    free, total = torch.cuda.mem_get_info(place)
    found.held = Held(
        foreseen,
        workspace=_workspace(place),
        requested=most["requested_bytes.all.peak"],
        allocated=most["allocated_bytes.all.peak"],
        reserved=most["reserved_bytes.all.peak"],
        used=total - free,
    )
