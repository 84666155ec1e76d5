"""A team's cluster: eight old GPUs and eight new ones, a slow port, one GPU that runs hot.  What
each part costs by the event model, and what unequal shares bring back.

N ranks · K bytes that are summed · B sequences of a step
The team trains a model of 8 billion parameters with ZeRO 1, and one of 34 as a pipeline.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from mathlib import specs
from mathlib.compute import flops
from mathlib.memory import activations, fit
from mathlib.schedule import events, orders, partition, programs, ring_ends, shares, waits
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Run
from mathlib.schedule.times import Times

MODEL = specs.find_model("llama3-8b")
OLD, NEW = (specs.find_device(name) for name in ("a100-40gb", "h100-sxm"))
EACH, N, B, TOKENS = 8, 16, 256, 4096  # GPUs of a node, of both; sequences; of a sequence
SHARE = 0.4  # of the peak, that either kind reaches
RESERVE = 0.05  # of the memory, that is left free
ACHIEVED = SHARE * NEW.flops_per_second("bf16")
SPEED = OLD.flops_per_second("bf16") / NEW.flops_per_second("bf16")  # of an old GPU
HOT, HEAT = 11, 0.7  # a new GPU, and what is left of its speed
LARGE = specs.find_model("llama2-34b")
K = 2 * MODEL.parameters  # bytes of the gradients
NVLINK, PORT, SLOW = Link(300e9), Link(50e9), Link(12.5e9)
WAYS = ("ring", "tree", "hierarchical")
M = 128  # micro-batches of the pipeline, of B / M sequences
SCHEDULE = orders.make("1f1b", stages=N, micro_batches=M)


def cluster(*, old: bool = True, port: bool = True, hot: bool = True) -> Cluster:
    """The team's, or without some of its faults."""
    speeds = dict.fromkeys(range(EACH), SPEED) if old else {}
    return Cluster(
        (EACH, EACH),
        NVLINK,
        PORT,
        ports={0: SLOW} if port else {},
        speeds=speeds | ({HOT: HEAT} if hot else {}),
    )


FAULTS = {
    "sixteen new GPUs": cluster(old=False, port=False, hot=False),
    "eight are old": cluster(port=False, hot=False),
    "one port is slow": cluster(old=False, hot=False),
    "one GPU is hot": cluster(old=False, port=False),
    "all three": cluster(),
}
BACK = dict.fromkeys(itertools.product(range(EACH, N), range(EACH)), SLOW)  # into the old node
BOTH_WAYS = replace(FAULTS["one port is slow"], slow=BACK)


@cache
def sequence() -> float:
    """Seconds of a sequence, forward and backward, on a new GPU."""
    return 3 * flops.forward(MODEL, tokens=TOKENS).total / ACHIEVED


def summed(way: str) -> list[events.Program]:
    """The all-reduce of the gradients."""
    if way == "hierarchical":
        return programs.hierarchical(payload=K, ranks=N, ranks_per_node=EACH)
    return {"ring": programs.ring, "tree": programs.tree}[way](payload=K, ranks=N)


def step(way: str, on: Cluster, counts: Sequence[int] = (B // N,) * N) -> Run:
    """Each rank computes its sequences, then all sum their gradients; nothing is hidden."""
    work = programs.work([n * sequence() for n in counts])
    return events.run(programs.after([work, summed(way)]), on, shared_ports=True, record=True)


def layers() -> tuple[float, float]:
    """Seconds of a layer's forward for a micro-batch on a new GPU, and of the head's."""
    each, head = partition.work(LARGE, tokens=TOKENS)
    return each[0] * B / M / ACHIEVED, head * B / M / ACHIEVED


def piped(on: Cluster, split: Sequence[int] = (3,) * N) -> Run:
    """A step of the large model through sixteen stages with so many layers each."""
    one, head = layers()
    seconds = partition.stage_times(split, times=[one] * LARGE.layers, head=head)
    size = B // M * TOKENS * LARGE.width * 2
    times = Times(forward=seconds, backward=[2 * s for s in seconds], size=size)
    plan = programs.pipeline(SCHEDULE, times)
    return events.run(plan, on, shared_ports=True, record=True)


def seconds() -> dict[str, list[float]]:
    """Of a step, by fault: each way to sum, and the pipeline with equal stages."""
    return {
        name: [*(step(way, on).total for way in WAYS), piped(on).total]
        for name, on in FAULTS.items()
    }


def speeds(on: Cluster) -> list[float]:
    return [on.speed(rank) for rank in range(on.ranks)]


def share_used() -> float:
    """Of the team's speed, with equal shares."""
    return waits.used(speeds=speeds(cluster()))


def by_speed(on: Cluster | None = None) -> list[int]:
    """Sequences of each rank."""
    return shares.by_speed(things=B, speeds=speeds(on or cluster()))


def layer_bytes() -> tuple[float, float]:
    """States of a layer of the large model, and what it keeps of a micro-batch in flight."""
    states = 16.0 * (LARGE.parameters - 2 * LARGE.vocab * LARGE.width) / LARGE.layers
    each = activations.layer(LARGE, tokens=TOKENS, micro_batch=B // M, recompute="full")
    return states, each.total


def rooms(new: float = NEW.memory) -> list[float]:
    """Bytes of each GPU for layers; the first and the last also hold an embedding."""
    left = [(1 - RESERVE) * memory for memory in (OLD.memory, new) for _ in range(EACH)]
    once = activations.layer(LARGE, tokens=TOKENS, micro_batch=B // M).total  # computed again
    left = [room - once for room in left]
    for end in (0, -1):
        left[end] -= 16 * LARGE.vocab * LARGE.width
    return left


def stages(*, fitting: bool = True) -> list[int]:
    """Layers of each stage by speed; `fitting`: and by what the GPUs hold."""
    one, head = layers()
    of = {"times": [one] * LARGE.layers, "speeds": speeds(cluster()), "head": head}
    states, kept = layer_bytes()
    full = {"rooms": rooms(), "sizes": [states] * LARGE.layers, "kept": [kept] * LARGE.layers}
    return partition.by_device(**of, **(full if fitting else {}))  # type: ignore[arg-type]


class Kept(NamedTuple):
    """Bytes of a GPU that trains the small model with ZeRO 1."""

    alike: float  # weights, gradients and activations, which every rank has
    states: float  # of the whole model, in shards
    equal: float  # a rank's of them, if all have as much
    rooms: list[float]  # what is left of an old and of a new GPU
    shares: list[float]  # of an old and of a new GPU, in proportion to that


def memory() -> Kept:
    """Weights and gradients of 2 bytes a parameter on every rank, 12 bytes in shards."""
    layout = specs.Layout(data=N, zero=1, recompute="full", micro_batches=B // N)
    whole = fit.training(MODEL, layout, tokens=TOKENS, loss="fused").total
    states = 12.0 * MODEL.parameters
    alike = whole - states / N
    left = [(1 - RESERVE) * one.memory - alike for one in (OLD, NEW)]
    cuts = shares.by_room(numbers=round(states), rooms=left)
    return Kept(alike, states, states / N, left, [part / EACH for part in cuts])


def many(n: int, slow: float = 0.25, *, hierarchical: bool = False) -> float:
    """How many times longer an all-reduce takes n ranks in nodes of eight, if one port of all has
    so much of its bandwidth.
    """
    nodes = (EACH,) * (n // EACH)
    took = [
        max(
            ring_ends.all_reduce_ends(
                Cluster(nodes, NVLINK, PORT, ports=ports),
                payload=K,
                hierarchical=hierarchical,
                shared_ports=True,
            )
        )
        for ports in ({}, {0: Link(slow * PORT.bandwidth)})
    ]
    return took[1] / took[0]


def communication(way: str, on: Cluster) -> float:
    """How many times longer an all-reduce takes than on sixteen new GPUs."""
    both = (on, FAULTS["sixteen new GPUs"])
    slow, usual = (events.run(summed(way), one, shared_ports=True).total for one in both)
    return slow / usual
