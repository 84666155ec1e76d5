"""The library's MiCS: its knobs, made in shards, recomputed and offloaded, saved and resumed."""

import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.meters import live, trace
from mathlib.meters.saved import saved_bytes
from mathlib.model import data, gpt, oracle
from mathlib.model.offload import offloaded
from mathlib.parallel import checkpoint
from mathlib.parallel.zero.mics import Mics
from mathlib.trials import zero

SHAPE = zero.SHAPE
sgd: Any = oracle.OPTIMIZERS["SGD"]
adam: Any = oracle.OPTIMIZERS["Adam"]
BATCH, STEPS = 12, 3


def in_a_row(weights: dict[str, Tensor], model: gpt.GPT) -> Tensor:
    return torch.cat([weights[name].flatten() for name, _ in model.named_parameters()])


def mine(number: int) -> list[Tensor]:
    """This rank's part of a batch."""
    return oracle.my_part(data.batch(BATCH, SHAPE.context, number))


# The knobs


class Knobs(NamedTuple):
    """A step on two ranks that form one sharding group."""

    gathered: int  # bytes
    scatters: int  # messages
    summed: int  # bytes
    kept: int  # bytes of weights
    live: float  # the most layers that are whole at once


class _Watched(Mics):
    most = 0

    def _look_ahead(self, layers: Any) -> None:
        super()._look_ahead(layers)
        there = sum(any(r.whole or r.arriving for r in self.rows[b]) for b in self.layers)
        self.most = max(self.most, there)


def _turned(**knobs: Any) -> Knobs:
    notes, model = trace.Trace(dist.get_rank()), gpt.GPT(SHAPE)
    way = _Watched(model, sgd, model.blocks, shard=2, trace=notes, **knobs)
    for number in range(2):  # the first step learns the order of the layers
        notes.events.clear()
        way.most = 0
        oracle.loss(model, *mine(number)).backward()
        way.step()
    sent: dict[str, list[int]] = {"all-gather": [], "reduce-scatter": [], "all-reduce": []}
    for event in notes.events:
        if event.kind == "communication" and event.bytes:
            sent[event.what.partition(" ")[0]].append(event.bytes)
    gathers, scatters, sums = sent.values()
    kept = sum(row.shard.nbytes for row in way.shards)
    return Knobs(sum(gathers), len(scatters), sum(sums), kept, way.most)


def turned(*settings: dict[str, Any]) -> list[Knobs]:
    """The step with each of these settings."""
    return launch.run(lambda: [_turned(**knobs) for knobs in settings], 2)[0]


def room_for(layers: int) -> int:
    """Live parameters: what stands in no layer, and so many layers."""
    return zero.PARAMETERS - zero.IN_LAYERS * (SHAPE.layers - layers) // SHAPE.layers


# Made in shards

TALL = gpt.small(layers=12, width=32, context=8, vocab=16)


def _made(in_shards: bool) -> tuple[list[int], Tensor]:
    with live.LiveMeter() as meter:
        meter.follow(torch.zeros(1))  # on the CPU; the meta device has no bytes
        with torch.device("meta" if in_shards else "cpu"):
            model = gpt.GPT(TALL)
        fill = gpt.fill if in_shards else None
        way = Mics(model, sgd, model.blocks, shard=4, fill=fill)
    alive = [sum(row.values()) for row in meter.timeline().rows]
    return alive, in_a_row(way.full_weights(), gpt.GPT(TALL))


def births() -> dict[str, tuple[list[int], Tensor]]:
    """Bytes alive on the first of four ranks while a model is made, and its weights.

    The least of three tries: gloo's thread may hold a message for a moment longer.
    """
    found = {}
    ways = {"whole, then cut": False, "in shards": True}
    by_way = launch.run(lambda: [[_made(way) for _ in range(3)] for way in ways.values()], 4)[0]
    for name, tries in zip(ways, by_way, strict=True):
        alive = [min(moment) for moment in zip(*(alive for alive, _ in tries), strict=True)]
        found[name] = alive, tries[0][1]
    return found


def birth_sizes() -> tuple[int, int, int]:
    """Bytes of that model, of a layer, and of its largest matrix."""
    model = gpt.GPT(TALL)
    sizes = [p.nbytes for p in model.parameters()]
    return sum(sizes), sum(p.nbytes for p in model.blocks[0].parameters()), max(sizes)


# Recomputed and offloaded


def _thrifty(recompute: str, offload: bool) -> tuple[Tensor, int, int]:
    notes = trace.Trace(dist.get_rank())
    model = gpt.GPT(SHAPE, recompute=recompute).double()
    way = Mics(model, adam, model.blocks, shard=2, trace=notes)
    for number in range(STEPS):
        notes.events.clear()
        with offloaded(model) if offload else nullcontext() as moved:
            loss = oracle.loss(model, *mine(number))
        loss.backward()
        way.step()
    gathers = sum(e.what.startswith("all-gather") for e in notes.events)
    return in_a_row(way.full_weights(), model), moved.bytes if moved else 0, gathers


class Thrift(NamedTuple):
    """Three steps of two ranks."""

    far: float  # the weights from those of one process
    on_device: int  # bytes of saved activations
    on_host: int
    gathers: int


def thrift() -> dict[tuple[str, bool], Thrift]:
    """By recomputation and offloading."""
    ways = [(recompute, offload) for recompute in ("none", "full") for offload in (False, True)]
    by_rank = launch.run(lambda: [_thrifty(*way) for way in ways], 2)
    wanted = zero.one_process("Adam", STEPS)[-1]
    half = [t[: BATCH // 2] for t in data.batch(BATCH, SHAPE.context)]
    found = {}
    for i, (recompute, offload) in enumerate(ways):
        model = gpt.GPT(SHAPE, recompute=recompute).double()
        saved = saved_bytes(partial(oracle.loss, model, *half), model)
        far = oracle.distance([rank[i][0] for rank in by_rank], wanted)
        _, moved, gathers = by_rank[0][i]
        found[recompute, offload] = Thrift(far, saved - moved, moved, gathers)
    return found


# Saved and resumed


def _train(shard: int, folder: str, steps: int, save_after: int) -> tuple[float, Tensor]:
    """Train from the newest checkpoint on, if there is one; save after so many steps."""
    model = gpt.GPT(SHAPE, seed=dist.get_rank()).double()
    way = Mics(model, adam, model.blocks, shard=shard)
    newest = checkpoint.latest(folder)
    first = checkpoint.resume(way, newest)[0] if newest else 0
    for number in range(first, steps):
        loss = oracle.loss(model, *mine(number))
        loss.backward()
        way.step()
        if number + 1 == save_after:
            checkpoint.save(way, folder, save_after)
    dist.all_reduce(loss.data)
    return loss.item() / dist.get_world_size(), in_a_row(way.full_weights(), model)


def resumed(others: Iterable[tuple[int, int]]) -> dict[tuple[int, int], tuple[float, float]]:
    """Four ranks in two replicas save after 3 of 6 steps, and others of (ranks, degree) go on: the
    last loss, and how far it and all weights are from the unbroken run's; 0 is the same bits.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        unbroken, wanted = launch.run(_train, 4, 2, folder, 6, 3)[0]
        for ranks, shard in others:
            loss, weights = launch.run(_train, ranks, shard, folder, 6, 0)[0]
            gap = max(abs(loss - unbroken), oracle.distance([weights], wanted))
            found[ranks, shard] = loss, gap
    return found
