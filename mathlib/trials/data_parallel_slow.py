"""Data parallelism on two ranks and a slow wire: how long a step takes, and when its buckets leave.

K bytes of gradients · W bandwidth · alpha latency of a round
Ranks on one machine have far too fast a wire and far too busy cores. So the kernel holds each
connection to W, a thread carries one buffer after the other and pauses alpha in each round, and
backward waits beside each gradient as long as a device would compute it.
"""

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch
from mathlib.launch import slow_wires
from mathlib.meters import trace
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import ddp
from mathlib.traffic import comm, overlap
from mathlib.trials import data_parallel_torch as torchs

MODEL, MIB = torchs.MODEL, torchs.MIB
SIZES = [p.nbytes for p in reversed(list(gpt.GPT(MODEL).parameters()))]  # as backward meets them
K, BACKWARD = sum(SIZES), 0.36  # bytes, seconds
LINK: dict[str, Any] = {"bandwidth": 50e6, "latency": 2.5e-3}  # bytes/s, seconds
Racer = tuple[nn.Module, Callable[[], object]]  # what to call forward, and after backward

NAIVE = "Naive: each tensor, after"
RACERS: dict[str, tuple[Callable | None, float]] = {  # the class, and bytes of a bucket
    NAIVE: (ddp.Naive, 0),
    "DDP, one bucket": (ddp.DDP, 2**30),
    "DDP, each tensor at once": (ddp.DDP, 1),
    "DDP, buckets of 1 MiB": (ddp.DDP, MIB),
    "PyTorch's DDP, one bucket": (torchs.Torchs, 2**30),
    "PyTorch's DDP, 1 MiB": (torchs.Torchs, MIB),
    "nothing sent": (None, 0),
}


def _racer(name: str, model: nn.Module, send: Callable) -> Racer:
    kind, size = RACERS[name]
    if kind is None:
        return model, lambda: None
    if kind is torchs.Torchs:
        outer = kind(model, bucket_cap_mb=size / MIB)
        outer.register_comm_hook(  # a hook divides
            None, lambda _, bucket: send(bucket.buffer().div_(dist.get_world_size()))
        )
        return outer, lambda: None
    how: dict[str, Any] = {"bucket_bytes": size}
    if kind is ddp.Naive:
        how = {"all_reduce": lambda flat, group: send(flat, group).wait()}
    return model, kind(model, torch.optim.SGD, **how).step


def _step(name: str, send: Callable) -> Callable[[], None]:
    model = gpt.GPT(MODEL)
    for p in model.parameters():  # a gradient takes its share of backward
        pause = p.nbytes / K * BACKWARD
        p.register_post_accumulate_grad_hook(lambda _, pause=pause: time.sleep(pause))
    outer, finish = _racer(name, model, send)
    part = data.batch(1, 8, dist.get_rank())

    def step() -> None:
        oracle.loss(outer, *part).backward()
        finish()

    return step


@contextmanager
def _late(send: Callable) -> Any:
    """The plain file's all-reduce is the slow one."""
    theirs = SimpleNamespace(**vars(dist) | {"all_reduce": lambda flat, group, **_: send(flat)})
    with patch.object(ddp, "dist", theirs):
        yield


def seconds(names: list[str], rounds: int = 2) -> dict[str, float]:
    """Of the shortest step of each, until the last rank is through."""
    took: dict[str, float] = {}
    send = slow_wires.all_reducer(latency=LINK["latency"])
    with _late(send):
        steps = {name: _step(name, send) for name in names}
        for step in steps.values():  # PyTorch packs its buckets anew after this one
            step()
        with slow_wires.wires(bandwidth=LINK["bandwidth"]):
            for name, step in list(steps.items()) * rounds:
                dist.barrier()
                begin = time.perf_counter()
                step()
                end = torch.tensor(time.perf_counter() - begin)
                dist.all_reduce(end, dist.ReduceOp.MAX)
                took[name] = min(took.get(name, 1e9), end.item())
    return took


def modelled(name: str) -> tuple[float, int]:
    """Seconds of a step, and its all-reduces: a bucket leaves when it is full and the wire free."""
    kind, size = RACERS[name]
    if kind is None:
        return BACKWARD, 0
    if kind is ddp.Naive:
        whole, n = comm.time("all-reduce", payload=K, ranks=2, **LINK), len(SIZES)
        return BACKWARD + n * whole.amount("latency") + whole.amount("transfer"), n
    step = overlap.bucketed(
        layers=1, tensors=SIZES, payload=K, backward=BACKWARD, ranks=2, bucket=size, **LINK
    )
    return BACKWARD + step.exposed, len(step.buckets)


def race(names: list[str] | None = None) -> dict[str, tuple[int, float, float]]:
    """All-reduces of a step, and its seconds by the model and measured on two ranks."""
    took = launch.run(seconds, 2, names or list(RACERS), timeout=110)[0]
    return {name: (*reversed(modelled(name)), s) for name, s in took.items()}


def recorded(bucket: float = 3 * MIB, steps: int = 4) -> list[trace.Event]:
    """The quickest of some steps of PyTorch's DDP on two ranks, beside real work on a real wire."""
    ranks = launch.run(torchs.steps, 2, steps + 1, bucket_cap_mb=bucket / MIB)
    merged = [
        trace.merge([_numbered(events) for events in step])
        for step in zip(*(rank[1:] for rank in ranks), strict=True)
    ]
    return min(merged, key=lambda events: max(e.end for e in events))


def _numbered(events: list[trace.Event]) -> list[trace.Event]:
    """Work and buckets of a rank, the buckets by the order in which they leave."""
    sent = sorted(e.start for e in events if e.kind == "communication")
    names = {start: f"bucket {number}" for number, start in enumerate(sent, 1)}
    seen = [e for e in events if e.kind != "gradient"]
    return [replace(e, what=names.get(e.start, e.what)) for e in seen]
