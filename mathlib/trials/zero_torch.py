"""PyTorch's own sharded training beside ours on a small GPT: what each trains to, sends, holds,
and which collectives it calls.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from mathlib.meters import wire
from mathlib.meters.saved import Storages
from mathlib.model import data, gpt, oracle
from mathlib.parallel.zero.mics import Mics
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage2 import Zero2
from mathlib.parallel.zero.stage3 import Zero3

# No biases and a vocabulary of 64, so that every first dimension can be divided among 2 and 4:
# FSDP2 cuts each parameter there, and pads it.
MODEL = gpt.small(
    layers=4, width=64, context=16, vocab=64, qkv_bias=False, output_bias=False, mlp_bias=False
)
OPTIMIZERS: dict[str, tuple[type, dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})
}
OPTIMIZERS["Adam"] = torch.optim.Adam, {"lr": 0.01}
STEPS, SEQUENCES = 3, 4
Trained = tuple[nn.Module, Callable[[], object], Callable[[], Tensor]]  # step; all weights in a row


def zero_redundancy(model: gpt.GPT, kind: type, options: dict) -> Trained:
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=kind, parameters_as_bucket_view=True, **options
    )

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return wrapped, step, lambda: oracle.flat_weights(model)


def fsdp2(model: gpt.GPT, kind: type, options: dict, replicas: int = 1) -> Trained:
    """One mesh axis; with replicas two, which is HSDP."""
    ranks = dist.get_world_size()
    shape = (replicas, ranks // replicas) if replicas > 1 else (ranks,)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replica", "shard")[-len(shape) :])
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = kind(model.parameters(), **options)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    def weights() -> Tensor:
        return torch.cat([p.full_tensor().detach().flatten() for p in model.parameters()])  # type: ignore[attr-defined]

    return model, step, weights


def ours(model: gpt.GPT, kind: type, options: dict, stage: int, **more: Any) -> Trained:
    def make(groups: list) -> torch.optim.Optimizer:
        return kind(groups, **options)

    if stage < 3:
        zero = (Zero1 if stage == 1 else Zero2)(model, make, **more)
        return model, zero.step, lambda: oracle.flat_weights(model)
    zero = (Mics if "shard" in more else Zero3)(model, make, list(model.blocks), **more)

    def weights() -> Tensor:
        whole = zero.full_weights()
        return torch.cat([whole[name].flatten() for name, _ in model.named_parameters()])

    return model, zero.step, weights


WAYS: dict[str, Callable[[gpt.GPT, type, dict], Trained]] = {
    "ZeRO-1": partial(ours, stage=1),  # so small a model is one row
    "ZeRO-1, small flat buffers": partial(ours, stage=1, bucket_bytes=2**16),
    "ZeRO-2": partial(ours, stage=2, bucket_bytes=2**16),
    "ZeRO-3": partial(ours, stage=3),
    "ZeRO-3, one flat buffer in flight": partial(ours, stage=3, in_flight=1),
    "MiCS": partial(ours, stage=3, shard=2),
    "MiCS, one flat buffer in flight": partial(ours, stage=3, shard=2, in_flight=1),
    "ZeroRedundancyOptimizer": zero_redundancy,
    "FSDP2": fsdp2,
    "HSDP": partial(fsdp2, replicas=2),
}


def train(way: str, optimizer: str) -> tuple[Callable[[], None], Callable[[], Tensor], nn.Module]:
    """A step on this rank's part of the next batch; all weights in a row; the module."""
    model = gpt.GPT(MODEL, seed=0).double()
    wrapped, update, weights = WAYS[way](model, *OPTIMIZERS[optimizer])
    numbers = count()

    def step() -> None:
        part = oracle.my_part(data.batch(SEQUENCES, MODEL.context, next(numbers)))
        oracle.loss(wrapped, *part).backward()
        update()

    return step, weights, model


def weights_after_steps(ways: list[str], optimizer: str) -> dict[str, list[Tensor]]:
    found = {}
    for way in ways:
        step, weights, _ = train(way, optimizer)
        found[way] = [(step(), weights().clone())[1] for _ in range(STEPS)]
    return found


def sent_and_held(ways: list[str]) -> dict[str, tuple[int, int]]:
    """Bytes that this rank sends in a step that is not the first, and the most it holds in one."""
    found = {}
    for way in ways:
        step, _, model = train(way, "SGD")
        step()
        with wire.tcp() as sent:
            step()
        with Storages(model) as storages:
            step()
        found[way] = sent.sent, storages.peak
    return found


def by_one(optimizer: str) -> list[Tensor]:
    kind, options = OPTIMIZERS[optimizer]
    model = gpt.GPT(MODEL, seed=0).double()
    batches = [data.batch(SEQUENCES, MODEL.context, number) for number in range(STEPS)]
    return oracle.one_process(model, batches, kind(model.parameters(), **options))


def cuts_by_rank() -> bool:
    """Whether FSDP2 gives rank r the r-th of equal pieces of every parameter."""
    model, whole = gpt.GPT(MODEL, seed=0), gpt.GPT(MODEL, seed=0)
    fsdp2(model, *OPTIMIZERS["SGD"])
    pairs = zip(model.parameters(), whole.parameters(), strict=True)
    ranks, rank = dist.get_world_size(), dist.get_rank()
    return all(
        torch.equal(own.to_local(), p.chunk(ranks)[rank])  # type: ignore[attr-defined]
        for own, p in pairs
    )


def calls_of_fsdp2() -> dict[str, tuple[int, int]]:
    """Collectives of a step and their bytes: all of them, gathers, scatters."""
    model, _, _ = fsdp2(gpt.GPT(MODEL, seed=0), *OPTIMIZERS["SGD"])
    with wire.counted() as program:
        oracle.loss(model, *oracle.my_part(data.batch(SEQUENCES, MODEL.context))).backward()
    return {
        kind: tuple(  # type: ignore[misc]
            sum(n for call, n in counted.items() if kind in call)
            for counted in (program.calls, program.payload)
        )
        for kind in ("", "gather", "scatter")
    }
