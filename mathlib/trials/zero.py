"""The three stages of `parallel/plain/zero.py`: what a rank keeps, sends, and ends with.

N ranks · P parameters · m micro-batches of a step
Stage 0 is data parallelism without sharding. Four ranks divide the model's flat buffers without
padding.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.memory import states
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import ddp, ring, zero
from mathlib.traffic import volumes

SHAPE = gpt.small(layers=4, width=40, context=16, vocab=len(data.vocabulary()))
PARAMETERS = sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
IN_LAYERS = sum(p.numel() for p in gpt.GPT(SHAPE).blocks.parameters())
SEQUENCES, STEPS, STAGES = 12, 3, (1, 2, 3)
NUMBER = 4  # bytes


def build(stage: int, model: gpt.GPT, make: Callable) -> Any:
    """A plain class of the stage around the model: `step` after one or more backwards."""
    if not stage:
        return ddp.Naive(model, make)
    return zero.Zero(model, make, model.blocks, stage=stage)


# What data-parallel ranks hold twice


def _alike(by_rank: list[list[Tensor]]) -> float:
    """The share of bytes in tensors that another rank has, bit by bit, too."""
    ranks = [{_digest(t): t.nbytes for t in tensors} for tensors in by_rank]
    once = {name: size for sizes in ranks for name, size in sizes.items()}
    return 1 - sum(once.values()) / sum(sum(sizes.values()) for sizes in ranks)


def _digest(tensor: Tensor) -> bytes:
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).digest()


def _states() -> list[Tensor]:
    model = gpt.GPT(SHAPE)
    way = ddp.Naive(model, torch.optim.Adam)
    oracle.loss(model, *oracle.my_part(data.batch(SEQUENCES, SHAPE.context))).backward()
    way.average()
    way.optimizer.step()
    states_of = [(p.data, p.grad, *way.optimizer.state[p].values()) for p in model.parameters()]
    return [t for tensors in states_of for t in tensors if t.dim()]


def _saved() -> list[Tensor]:
    model, saved = gpt.GPT(SHAPE, attention="flash"), dict[int, Tensor]()
    own = {p.data_ptr() for p in model.parameters()}

    def note(tensor: Tensor) -> Tensor:
        if (
            tensor.dim()
            and tensor.is_floating_point()
            and tensor.untyped_storage().data_ptr() not in own
        ):
            saved[tensor.data_ptr()] = tensor.detach().clone()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        oracle.loss(model, *oracle.my_part(data.batch(SEQUENCES, SHAPE.context)))
    return list(saved.values())


def copies(ranks: int = 4) -> tuple[float, float]:
    """The share of bytes that another rank has, too: of model states, of saved activations."""
    return _alike(launch.run(_states, ranks)), _alike(launch.run(_saved, ranks))


# Whether ranks train the model of one process

BROKEN: dict[str, Callable] = {  # what stands in for a function of the ring
    "reduce-scatter": lambda flat, group: flat.chunk(dist.get_world_size())[dist.get_rank()],
    "all-gather": lambda flat, group: _only_mine(flat),
}


def _only_mine(flat: Tensor) -> None:
    for r, shard in enumerate(flat.chunk(dist.get_world_size())):
        if r != dist.get_rank():
            shard.zero_()


def whole_weights(way: Any, model: gpt.GPT) -> Tensor:
    """All weights end to end; those of stage 3 are gathered for it."""
    away = way.flats if getattr(way, "stage", 0) == 3 else []
    for flat in away:
        flat.gather()
    weights = oracle.flat_weights(model)
    for flat in away:
        flat.release()
    return weights


def trained(build: Callable, make: Callable, m: int = 1, steps: int = STEPS) -> list[Tensor]:
    """This rank's weights after each step, of `build(model, make)` on its part of the batches."""
    model = gpt.GPT(SHAPE, seed=dist.get_rank()).double()  # ranks start apart
    way, history = build(model, make), []
    for step in range(steps):
        mine = oracle.my_part(data.batch(SEQUENCES, SHAPE.context, step))
        for part in zip(*(t.chunk(m) for t in mine), strict=True):
            (oracle.loss(model, *part) / m).backward()
        way.step()
        history.append(whole_weights(way, model))
    return history


@cache
def one_process(name: str, steps: int = STEPS) -> list[Tensor]:
    """The weights of one process after each step on the whole batches."""
    model = gpt.GPT(SHAPE, seed=0).double()
    batches = [data.batch(SEQUENCES, SHAPE.context, step) for step in range(steps)]
    return oracle.one_process(model, batches, oracle.OPTIMIZERS[name](model.parameters()))


def furthest(histories: Iterable[list[Tensor]], wanted: list[Tensor]) -> float:
    """The largest distance of any rank after any step."""
    by_step = zip(zip(*histories, strict=True), wanted, strict=True)
    return max(oracle.distance(ranks, weights) for ranks, weights in by_step)


def _each_stage(name: str, m: int, without: str) -> list[list[Tensor]]:
    name_there = without.replace("-", "_")
    broken = patch.object(ring, name_there, BROKEN[without]) if without else nullcontext()
    make, found = oracle.OPTIMIZERS[name], []
    with broken:
        for stage in STAGES:
            found.append(
                trained(lambda model, make, z=stage: build(z, model, make), make, m)  # type: ignore[misc]
            )
    return found


def distances(ranks: int, name: str = "Adam", m: int = 1, without: str = "") -> list[float]:
    """How far the ranks of stages 1, 2 and 3 are from one process after any step."""
    by_rank = launch.run(_each_stage, ranks, name, m, without)
    wanted = one_process(name)
    return [furthest(histories, wanted) for histories in zip(*by_rank, strict=True)]


# What a rank keeps, and what it sends


def _storage(tensors: Iterable[Tensor | None]) -> int:
    there = [t.untyped_storage() for t in tensors if t is not None]
    return sum({s.data_ptr(): s.nbytes() for s in there}.values())


def _kept(stage: int) -> dict[str, int]:
    model = gpt.GPT(SHAPE)
    way = build(stage, model, torch.optim.Adam)
    for step in range(2):
        batch = oracle.my_part(data.batch(SEQUENCES, SHAPE.context, step))
        oracle.loss(model, *batch).backward()
        if not step:
            way.step()
    shards = [flat.shard for flat in way.flats] if stage else []
    moments = [t for one in way.optimizer.state.values() for t in one.values() if t.dim()]
    return {
        "weights": _storage([*model.parameters(), *shards]),
        "gradients": _storage(p.grad for p in [*model.parameters(), *shards]),
        "optimizer states": _storage(moments),
    }


def kept(ranks: int = 4) -> dict[int, dict[str, int]]:
    """By stage, the bytes that a rank keeps after a backward that is not the first."""
    return launch.run(lambda: {stage: _kept(stage) for stage in (0, *STAGES)}, ranks)[0]


def keeps(stage: int, ranks: int = 4) -> dict[str, float]:
    """The same by the formula; as masters do, shards stand beside weights that stay whole."""
    parts = states.model_states(PARAMETERS, recipe="adam-fp32", zero=stage, shard=ranks)
    beside = NUMBER * PARAMETERS / ranks if stage in (1, 2) else 0
    kinds = ("weights", "gradients", "optimizer states")
    return {kind: parts.amount(kind) + (beside if kind == "weights" else 0) for kind in kinds}


def sent(stage: int, m: int = 1) -> tuple[float, float]:
    """Bytes that this rank sends in a step: by the program, by the system without headers."""
    model = gpt.GPT(SHAPE)
    way = build(stage, model, oracle.OPTIMIZERS["SGD"])
    parts = [data.batch(2, SHAPE.context, m * dist.get_rank() + i) for i in range(m)]
    for _ in range(2):  # connections are opened by the first
        with wire.tcp() as system, wire.counted() as program:
            for part in parts:
                (oracle.loss(model, *part) / m).backward()
            way.step()
    return program.sent, system.sent - (program.on_wire - program.sent)


def sends(stage: int, ranks: int, m: int = 1) -> float:
    """The same by the formula; in stage 3 what stands in no layer stays gathered."""
    how: dict[str, Any] = {"data": ranks, "stage": stage, "micro_batches": m}
    how |= {"weight_bytes": NUMBER, "gradient_bytes": NUMBER}
    outside = volumes.zero(parameters=PARAMETERS - IN_LAYERS, keep_gathered=stage == 3, **how)
    return volumes.zero(parameters=IN_LAYERS, **how).total + outside.total


def counted(ranks: int = 4, m: int = 1) -> dict[int, tuple[float, float, float]]:
    """By stage, the bytes that a rank sends in a step: formula, program, system."""
    found = launch.run(lambda: {stage: sent(stage, m) for stage in (0, *STAGES)}, ranks)[0]
    return {stage: (sends(stage, ranks, m), *counts) for stage, counts in found.items()}
