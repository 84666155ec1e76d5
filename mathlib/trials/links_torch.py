"""PyTorch's DDP over shaped links: what it sends besides gradients, counted at the node's port.

The buffers of the small model stand to its gradients as those of a published one do.
"""

import inspect
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mathlib import launch
from mathlib.launch import lab
from mathlib.launch.namespaces import PORT
from mathlib.meters import wire
from mathlib.schedule.cluster import Cluster, Link
from mathlib.traffic import comm
from mathlib.trials import links_published as published

RANKS, WIDTH, LAYERS = 4, 256, 4
GRADIENTS = 4 * LAYERS * WIDTH**2  # bytes
BUFFERS = round(GRADIENTS * published.BUFFERS / published.K / 8) * 8  # in the published proportion


class Net(nn.Module):
    """A few square matrices, and a buffer that is never changed, as a table of rotations is."""

    def __init__(self, buffers: int):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
        if buffers:
            self.register_buffer("table", torch.zeros(buffers // 4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


DDP = nn.parallel.DistributedDataParallel
KNOWN = inspect.signature(DDP).parameters  # the option's name in this version
OPTION = "forward_sync_buffers" if "forward_sync_buffers" in KNOWN else "broadcast_buffers"
WAYS = {  # bytes of buffers, and whether they are sent
    "no buffers": (0, True),
    "buffers, not sent": (BUFFERS, False),
    "buffers, by default": (BUFFERS, True),
}


class Sent(NamedTuple):
    """Of all ranks in a step, bytes: by the TCP connections, and at the ports (0 if the nodes have
    none); and the seconds of the slowest.
    """

    tcp: float
    port: float
    seconds: float


def _at_port() -> int:
    """Bytes that left this node, by the kernel's count of its port."""
    if lab.here().place.way != "namespaces":
        return 0
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    row = next(line.split(":")[1] for line in lines if line.strip().startswith(f"{PORT}:"))
    return int(row.split()[8])


def _steps(names: Sequence[str]) -> dict[str, tuple[float, float, float]]:
    found = {}
    for name in names:
        buffers, send = WAYS[name]
        outer = DDP(Net(buffers), **({} if send else {OPTION: False}))  # type: ignore[arg-type]
        x = torch.ones(2, WIDTH)
        for _ in range(2):  # buckets are packed anew after the first
            outer(x).square().mean().backward()
        wire.quiet()
        before, begin = _at_port(), time.perf_counter()
        with wire.tcp() as counted:
            outer(x).square().mean().backward()
            seconds = time.perf_counter() - begin
        found[name] = float(counted.sent), float(_at_port() - before), seconds
    return found


def sent(
    bandwidth: float = 50e6, names: Sequence[str] = tuple(WAYS), network: str | None = None
) -> dict[str, Sent]:
    """By way, a step of four nodes."""
    cluster = Cluster((1,) * RANKS, between=Link(bandwidth))
    by_rank = launch.run(_steps, None, list(names), cluster=cluster, network=network, timeout=120)
    found = {}
    for name in names:
        tcp, port, seconds = zip(*(one[name] for one in by_rank), strict=True)
        found[name] = Sent(sum(tcp), sum(port), max(seconds))
    return found


def expected(name: str) -> float:
    """Bytes of all ranks in a step: a ring of the gradients, and the buffers to N - 1 ranks."""
    buffers, send = WAYS[name]
    ring = RANKS * comm.sent("all-reduce", payload=GRADIENTS, ranks=RANKS)
    return ring + (RANKS - 1) * buffers * send


def rows(counted: dict[str, Sent]) -> list[list[str]]:
    """By way: bytes by formula and by the kernel, and these over a ring of the gradients."""
    ring = expected("no buffers")
    return [
        [name, f"{expected(name):,.0f}", f"{one.tcp:,.0f}", f"{one.tcp / ring:.2f}"]
        for name, one in counted.items()
    ]
