"""PyTorch's DistributedDataParallel, watched: when its buckets leave, what they hold, and whose
gradients a rank ends with.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import make_dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future
from torch.utils.checkpoint import checkpoint

from mathlib import launch
from mathlib.meters import trace, wire
from mathlib.model import data, gpt, oracle

Torchs: Any = nn.parallel.DistributedDataParallel
MIB = 2**20
MODEL = gpt.small(layers=4, width=256, vocab=len(data.vocabulary()), context=64)
SEARCH, STATIC = {"find_unused_parameters": True}, {"static_graph": True}
HEADERS = 288  # bytes that gloo adds to each round of an all-reduce


def watched(inner: nn.Module, **options: Any) -> tuple[nn.Module, trace.Trace]:
    """PyTorch's DDP around it; the trace has when each gradient comes, and from when to when each
    bucket is in flight, by the names of its parameters.
    """
    notes = trace.Trace(dist.get_rank())
    names: dict[Tensor, str] = {p: name for name, p in inner.named_parameters()}
    for p, name in names.items():
        p.register_post_accumulate_grad_hook(lambda _, n=name: notes.begin(n, "gradient")())
    outer = Torchs(inner, **options)

    def hook(group: Any, bucket: dist.GradBucket) -> Future[Tensor]:
        what = " ".join(names[p] for p in bucket.parameters())
        end = notes.begin(what, "communication", bucket.buffer().nbytes)
        return allreduce_hook(group, bucket).then(lambda done: (end(), done.value())[1])

    outer.register_comm_hook(None, hook)
    return outer, notes


def left(events: list[trace.Event]) -> tuple[int, int]:
    """Buckets, and how many of them left before the last gradient came."""
    last = max(e.start for e in events if e.kind == "gradient")
    leaves = [e.start for e in events if e.kind == "communication"]
    return len(leaves), sum(start < last for start in leaves)


def steps(count: int, **options: Any) -> list[list[trace.Event]]:
    """The events of some steps of the small GPT on this rank."""
    (outer, notes), found = watched(gpt.GPT(MODEL), **options), []
    part = data.batch(4, MODEL.context, dist.get_rank())
    for _ in range(count):
        notes.events.clear()
        outer.zero_grad()
        dist.barrier()
        with notes.span("forward"):
            value = oracle.loss(outer, *part)
        with notes.span("backward"):
            value.backward()
        found.append(list(notes.events))
    return found


def early(mebibytes: float) -> tuple[int, int]:
    """`left` of a step with buckets of this size."""
    return left(launch.run(steps, 2, 2, bucket_cap_mb=mebibytes)[0][-1])  # the first packs anew


# The order of the buckets


class Backwards(nn.Module):
    """Layers that are used in another order than they are defined in."""

    def __init__(self) -> None:
        super().__init__()
        self.third, self.second, self.first = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))


def orders(**options: Any) -> list[tuple[str, int]]:
    """Four steps of it with a bucket a layer: buckets as sent, and how many left early."""
    outer, notes = watched(Backwards(), bucket_cap_mb=4 * (8 * 8 + 8) / MIB, **options)
    seen = []
    for _ in range(4):
        notes.events.clear()
        outer(torch.ones(1, 8)).sum().backward()
        sent = sorted((e for e in notes.events if e.kind == "communication"), key=lambda e: e.start)
        layers = [dict.fromkeys(n.partition(".")[0] for n in e.what.split()) for e in sent]
        seen.append((" | ".join(map(", ".join, layers)), left(notes.events)[1]))
    return seen


PLANS: dict[str, tuple[str, dict[str, bool]]] = {  # gradients of each forward: sent, kept under
    "plain": ("sent sent sent", {}),  # no_sync, or none in a test
    "no_sync": ("kept kept kept sent kept", {}),
    "no_grad": ("sent test sent", {}),
    "static_graph": ("sent kept sent kept", STATIC),
    "find_unused_parameters": ("sent sent sent sent", SEARCH),
}


def packed_anew(plan: str, options: dict[str, bool]) -> int:
    """The forward in which the buckets change, 0 if none."""
    model = Torchs(nn.Linear(1, 1), **options)
    for number, how in enumerate(plan.split(), 1):
        inside: Any = {"kept": model.no_sync, "test": torch.no_grad}.get(how, nullcontext)
        with inside():
            value = model(torch.ones(1, 1)).sum()
        if model._has_rebuilt_buckets:
            return number
        if how != "test":
            value.backward()
    return 0


class TwoTypes(nn.Module):
    """Two layers that have no bucket in common, not even in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4).double(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).float())


def first_step(**options: Any) -> tuple[int, int]:
    """`left` of its first step."""
    outer, notes = watched(TwoTypes(), **options)
    outer(torch.ones(1, 4, dtype=torch.float64)).sum().backward()
    return left(notes.events)


# Parameters that get no gradient


def a_branch_each(wrap: Callable, rank: int, iterations: int = 3) -> dict[str, Any]:
    """Each rank takes another branch: its first gradients, what it is told, its weights, and
    those after wrapping anew.
    """
    torch.manual_seed(0)
    inner, kept, errors = oracle.Branches(), [], []
    model, optimizer = wrap(inner), torch.optim.SGD(inner.parameters(), lr=0.1)
    for _ in range(iterations):
        try:
            model(torch.full((1, 4), 1.0 + rank), ("left", "right")[rank]).sum().backward()
            kept.append(oracle.flat_gradient(inner))
            optimizer.step()
            errors.append("")
        except RuntimeError as error:
            errors.append(str(error))
    weights = oracle.flat_weights(inner)
    wrap(inner)
    anew = oracle.flat_weights(inner)
    return {"gradient": kept[0], "errors": errors, "weights": weights, "anew": anew}


def branches(**options: Any) -> list[dict[str, Any]]:
    """The same of both ranks of PyTorch's DDP, and of each rank alone."""

    def both() -> dict[str, Any]:
        return a_branch_each(lambda inner: Torchs(inner, **options), dist.get_rank())

    return launch.run(both, 2) + [a_branch_each(lambda inner: inner, r, 1) for r in (0, 1)]


def diverged(found: list[dict[str, Any]]) -> float:
    """How far the weights of both ranks are from each other."""
    return oracle.distance([found[0]["weights"]], found[1]["weights"])


def own(found: list[dict[str, Any]]) -> bool:
    """Whether each rank of DDP kept the gradient that it has alone, bit for bit."""
    return all(torch.equal(found[r]["gradient"], found[2 + r]["gradient"]) for r in (0, 1))


WALK = "search_unused_parameters"  # as PyTorch's profiler calls it


def walks(kept: int = 0, **options: Any) -> int:
    """Walks over the graph in three steps, the last `kept` of them under no_sync."""
    model = Torchs(nn.Linear(1, 1), **SEARCH, **options)
    with torch.profiler.profile() as seen:
        for i in range(3):
            with model.no_sync() if i >= 3 - kept else nullcontext():
                model(torch.ones(1, 1)).sum().backward()
    return sum(e.name.endswith(WALK) for e in seen.events())


def walk_share() -> float:
    """The least share of a step of the small GPT that the walk takes."""
    model = Torchs(gpt.GPT(MODEL), **SEARCH)
    with torch.profiler.profile() as seen:
        for _ in range(3):
            with torch.profiler.record_function("whole step"):
                oracle.loss(model, *data.batch(2, MODEL.context)).backward()
    walks, steps = (
        [e.time_range.elapsed_us() for e in seen.events() if e.name.endswith(name)]
        for name in (WALK, "whole step")
    )
    return min(walk / step for walk, step in zip(walks, steps, strict=True))


def search_bytes(search: bool) -> int:
    """Bytes of a step of the small GPT on this rank of two, without gloo's headers."""
    outer, notes = watched(gpt.GPT(MODEL), bucket_cap_mb=1, find_unused_parameters=search)
    for _ in range(2):
        value = oracle.loss(outer, *data.batch(2, MODEL.context))
        notes.events.clear()
        with wire.tcp() as counted:
            value.backward()
    return counted.sent - HEADERS * 2 * (left(notes.events)[0] + search)


def leaving(**options: Any) -> tuple[int, int]:
    """Gradients that come and tensors that are sent, one a bucket, when no rank goes right."""
    outer, notes = watched(oracle.Branches(), bucket_cap_mb=1e-5, **options)
    outer(torch.ones(1, 4), "left").sum().backward()
    kinds = [e.kind for e in notes.events]
    return kinds.count("gradient"), kinds.count("communication")


BOXES: dict[str, Callable] = {
    "list": lambda out: [out],
    "dict": lambda out: {0: out},
    "dataclass": make_dataclass("Boxed", ["out"]),
    "object": lambda out: SimpleNamespace(out=out),
}


def hidden(how: str) -> str:
    """The error of a backward with the search, if the output is in a box or behind a checkpoint."""

    class Boxed(oracle.Branches):
        def forward(self, x: Tensor, way: str) -> Any:
            if how == "checkpoint":
                return checkpoint(super().forward, x, way, use_reentrant=True)
            return BOXES[how](super().forward(x, way))

    model = Torchs(Boxed(), **SEARCH)
    found = model(torch.ones(1, 4, requires_grad=True), ("left", "right")[dist.get_rank()])
    try:
        (found.out if hasattr(found, "out") else found[0]).sum().backward()
    except RuntimeError as error:
        return str(error).partition(".")[0]
    return ""
