"""What PyTorch's DDP leaves in `.grad`, what it sends and keeps for that, and which data it sees.

Where a rank's own gradient is its number, the mean of two ranks is a half.
"""

from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future
from torch.utils.data import DistributedSampler

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.traffic import comm
from mathlib.trials import zero
from mathlib.trials.data_parallel_torch import HEADERS, MODEL, Torchs

Sampler: Any = DistributedSampler
K = zero.NUMBER * zero.PARAMETERS  # bytes of gradients


def gradient(keep: bool = True) -> Tensor:
    """Of a rank after a backward; or after one whose wrapper was dropped before it."""
    inner = gpt.GPT(zero.SHAPE, seed=0).double()
    outer = Torchs(inner)
    value = oracle.loss(outer, *oracle.my_part(data.batch(zero.SEQUENCES, zero.SHAPE.context)))
    if not keep:
        del outer
    value.backward()
    return oracle.flat_gradient(inner)


def agreement(ranks: int, keep: bool = True) -> tuple[bool, float]:
    """Whether all ranks have the same bits, and how far they are from one process."""
    first, *others = found = launch.run(gradient, ranks, keep)
    whole = launch.run(gradient, 1)[0]
    return all(torch.equal(first, other) for other in others), oracle.distance(found, whole)


# Whose gradient

MEAN = "model(x), then backward", "backward inside no_sync", "a test forward between"
OWN = (
    *("forward inside no_sync", "model.module(x)", "unfrozen after wrapping"),
    *("a second backward", "a kept step between"),
)
NEITHER = "two forwards, two backwards", "a hook that does not divide"


def _wrapped(layer: nn.Linear, how: str) -> nn.Module:
    layer.weight.requires_grad_(how != "unfrozen after wrapping")
    model = Torchs(layer)
    if how == "a hook that does not divide":
        model.register_comm_hook(
            None,
            lambda _, bucket: (
                dist.all_reduce(bucket.buffer(), async_op=True)
                .get_future()
                .then(lambda done: done.value()[0])
            ),
        )
    layer.weight.requires_grad_(True)
    return model


def _meanwhile(model: Any, x: Tensor, how: str) -> None:
    """Between a forward and its backward."""
    if how == "a test forward between":
        with torch.no_grad():
            model(x)
    if how == "two forwards, two backwards":
        model(x).backward()
    if how == "a kept step between":
        with model.no_sync():
            model(x).backward()
        model.zero_grad()


def half_or_own(how: str) -> float:
    """A rank's gradient after one of the ways above."""
    layer, x = nn.Linear(1, 1), torch.full((1, 1), float(dist.get_rank()))
    model: Any = _wrapped(layer, how)
    with model.no_sync() if how == "forward inside no_sync" else nullcontext():
        value = layer(x) if how == "model.module(x)" else model(x)
    _meanwhile(model, x, how)
    with model.no_sync() if how == "backward inside no_sync" else nullcontext():
        value.backward(retain_graph=True)
    if how == "a second backward":
        layer.zero_grad()
        value.backward()
    return layer.weight.grad.item()  # type: ignore[union-attr]


def ways() -> dict[str, tuple[float, ...]]:
    """Each way's gradients on two ranks."""
    every = (*MEAN, *OWN, *NEITHER)
    found = launch.run(lambda: [half_or_own(way) for way in every], 2)
    return dict(zip(every, zip(*found, strict=True), strict=True))


def handed_on() -> dict[str, float]:
    """A rank's gradient wherever backward hands it on, and in .grad afterwards."""
    layer, seen = nn.Linear(1, 1, bias=False), dict[str, float]()
    nn.init.ones_(layer.weight)
    model, rank = Torchs(layer), float(dist.get_rank())
    layer.weight.register_hook(lambda g: seen.update({"a hook on the weight": g.item()}))
    layer.weight.register_post_accumulate_grad_hook(
        lambda p: seen.update({"a hook after adding": p.grad.item()})
    )
    front = torch.full((1, 1), rank, requires_grad=True)
    (rank * model(front)).sum().backward()
    seen["the layer in front"] = front.grad.item()  # type: ignore[union-attr]
    return seen | {".grad, after backward": layer.weight.grad.item()}  # type: ignore[union-attr]


# What is sent and kept


def sent(step: Any, m: int = 1) -> int:
    """Bytes by the system, of `step(model, parts)` on this rank's part in m micro-batches."""
    model = Torchs(gpt.GPT(zero.SHAPE))
    part = oracle.my_part(data.batch(zero.SEQUENCES, zero.SHAPE.context))
    parts = list(zip(*(tensor.chunk(m) for tensor in part), strict=True))
    for _ in range(3):  # the buckets are packed anew after the first, in a forward
        with wire.tcp() as counted:
            step(model, parts)
    return counted.sent


def each_sends(model: nn.Module, parts: list) -> None:
    """An all-reduce after every micro-batch."""
    for part in parts:
        (oracle.loss(model, *part) / len(parts)).backward()


def by_algorithm(ranks: int = 4) -> tuple[float, dict[str, float]]:
    """Bytes of an all-reduce of K over gloo, mean of the ranks: counted, and by algorithm."""
    counted = sum(launch.run(sent, ranks, each_sends)) / ranks
    rivals = {}
    for how in ("ring", "halving-doubling"):
        way = comm.traffic("all-reduce", payload=K, ranks=ranks, algorithm=how)
        rivals[how] = way.mean + HEADERS * way.rounds
    return counted, rivals


def stored(view: bool) -> int:
    """Bytes of buckets and gradients, each piece of memory once."""
    inner, storages = gpt.GPT(MODEL), []

    def noting(group: Any, bucket: dist.GradBucket) -> Future[Tensor]:
        storages.append(bucket.buffer().untyped_storage())
        return allreduce_hook(group, bucket)

    model = Torchs(inner, gradient_as_bucket_view=view)
    model.register_comm_hook(None, noting)
    for _ in range(2):  # the buckets are packed anew after the first
        storages.clear()
        oracle.loss(model, *data.batch(2, MODEL.context)).backward()
    storages += [p.grad.untyped_storage() for p in inner.parameters()]  # type: ignore[union-attr]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


# Who gets which data


def dealt(samples: int, ranks: int = 4, **options: Any) -> list[list[int]]:
    """The numbers that PyTorch's sampler gives each rank."""
    numbers, options = range(samples), {"shuffle": False} | options
    return [list(Sampler(numbers, ranks, rank, **options)) for rank in range(ranks)]


def epochs(tell: bool, count: int = 3) -> list[list[int]]:
    """What rank 0 of two gets of eight samples in each epoch."""
    sampler, seen = Sampler(range(8), num_replicas=2, rank=0), []
    for epoch in range(count):
        if tell:
            sampler.set_epoch(epoch)
        seen.append(list(sampler))
    return seen
