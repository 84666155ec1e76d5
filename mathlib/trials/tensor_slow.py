"""A layer cut over two ranks whose link is slowed, and the model of its time beside it.

t tensor ranks · K bytes that are summed · W bandwidth of a rank's link
The matrices sleep instead of computing, 1/t of the time on each rank, so that little depends on
what else the machine does. The sums are the plain file's, over the slowed link.
"""

import time
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.compute import flops
from mathlib.launch.slow_ranks import Sleep
from mathlib.model import gpt
from mathlib.parallel.plain.tensor import AllReduceBackward, AllReduceForward
from mathlib.parts import Parts
from mathlib.schedule.cluster import Cluster, Link
from mathlib.traffic import tensor_time

SHAPE = gpt.small(layers=2, width=512, heads=8, context=512, vocab=64)
PAUSE, NUMBER, STEPS = 0.06, 4, 4  # seconds of a layer's forward on one rank; bytes
FORWARD = flops.forward(SHAPE)
ACHIEVED = (FORWARD.total - FORWARD.amount("vocabulary")) / SHAPE.layers / PAUSE
LINKS = (15e6, 50e6, 150e6)


def layer(x: Tensor, ranks: int) -> Tensor:
    """Attention and MLP: each is read by all ranks, worked at by each, and summed."""
    for _ in range(2):
        x = AllReduceBackward.apply(x, None)
        x = Sleep.apply(x, PAUSE / 2 / ranks)
        x = AllReduceForward.apply(x, None)
    return x


def _steps() -> list[float]:
    """Seconds of this rank in the layers of each step, but the first, which opens connections."""
    x = torch.ones(SHAPE.context, SHAPE.width, requires_grad=True)
    took, ranks = [], dist.get_world_size()
    for _ in range(STEPS):
        dist.barrier()
        begin = time.perf_counter()
        y = x
        for _ in range(SHAPE.layers):
            y = layer(y, ranks)
        y.backward(torch.ones_like(y))
        took.append(time.perf_counter() - begin)
    return took[1:]


class Beside(NamedTuple):
    """Seconds of all layers, forward and backward, planned and run."""

    plan: Parts  # of a layer
    seconds: float

    @property
    def planned(self) -> float:
        return SHAPE.layers * self.plan.total


def beside(link: float, ranks: int = 2, network: str = "paced") -> Beside:
    """The fastest of three steps, each rank a node: no step can be faster than its pauses and its
    link allow.  On `network` "namespaces" the nodes have nothing in common but a cable.
    """
    how: dict[str, Any] = {"tensor": ranks, "bytes_per_element": NUMBER}
    plan = tensor_time.layer(SHAPE, achieved=ACHIEVED, bandwidth=link, **how)
    cluster = Cluster((1,) * ranks, between=Link(link))
    steps = zip(*launch.run(_steps, cluster=cluster, network=network), strict=True)
    return Beside(plan, min(map(max, steps)))
