"""`parallel/plain/mics.py`: what a rank keeps, sends and trains to, by its sharding degree.

N ranks · S ranks of a sharding group · m micro-batches of a step
The model is that of `trials.zero`; eight ranks divide its flat buffers without padding.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib import launch
from mathlib.memory import states
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import mics, ring
from mathlib.parallel.plain.zero import Flat
from mathlib.parallel.zero.mics import Mics
from mathlib.traffic import hierarchical, volumes
from mathlib.trials import zero

SHAPE, PARAMETERS, IN_LAYERS, NUMBER = zero.SHAPE, zero.PARAMETERS, zero.IN_LAYERS, zero.NUMBER
NODE = 2  # ranks of what stands for a machine here
Make = Callable[[Iterable[Tensor]], torch.optim.Optimizer]
MOST = 0.5  # the norm at which gradients are clipped
sgd = oracle.OPTIMIZERS["SGD"]


def build(shard: int, model: gpt.GPT, make: Make) -> mics.Mics:
    """The plain class around the model, sharded over so many neighbors."""
    return mics.Mics(model, make, model.blocks, *mics.groups(shard))


def micro_batches(m: int, sequences: int = zero.SEQUENCES) -> list[Sequence[Tensor]]:
    """This rank's part of a batch, cut into m."""
    mine = oracle.my_part(data.batch(sequences, SHAPE.context))
    return list(zip(*(t.chunk(m) for t in mine), strict=True))


def step(way: Any, model: nn.Module, m: int = 1, sequences: int = 8) -> None:
    """One step of m micro-batches."""
    for part in micro_batches(m, sequences * m):
        (oracle.loss(model, *part) / m).backward()
    way.step()


# Whether ranks train the model of one process


def _trained(cases: Iterable[tuple[int, str]], silent: bool) -> list[list[Tensor]]:
    """The weights after each step, by degree and optimizer; silent: replicas never add up."""
    with patch.object(ring, "all_reduce", lambda *_: None) if silent else nullcontext():
        return [
            zero.trained(partial(build, shard), oracle.OPTIMIZERS[name]) for shard, name in cases
        ]


def distances(ranks: int, cases: list[tuple[int, str]], silent: bool = False) -> list[float]:
    """How far any rank is from one process after any step, by degree and optimizer."""
    histories = zip(*launch.run(_trained, ranks, cases, silent), strict=True)
    pairs = zip(histories, cases, strict=True)
    return [zero.furthest(found, zero.one_process(name)) for found, (_, name) in pairs]


# What a rank keeps, and what it sends


def _kept(shard: int) -> int:
    model = gpt.GPT(SHAPE)
    way = build(shard, model, torch.optim.Adam)
    step(way, model)
    for part in micro_batches(1):
        oracle.loss(model, *part).backward()
    states_of = way.optimizer.state
    tensors = [(f.shard, f.shard.grad, *states_of[f.shard].values()) for f in way.flats]
    return sum(t.nbytes for each in tensors for t in each if t is not None and t.dim())


def kept(ranks: int = 4, degrees: Sequence[int] = (1, 2, 4)) -> dict[str, tuple[float, float]]:
    """Predicted and counted bytes of weights, gradients and Adam's moments, by degree."""
    counted = launch.run(lambda: [_kept(S) for S in degrees], ranks)[0]
    each = states.per_parameter("adam-fp32", zero=3, shard=1).total
    pairs = zip(degrees, counted, strict=True)
    return {f"S = {S}": (each * PARAMETERS / S, size) for S, size in pairs}


def _sent(shard: int, m: int) -> tuple[float, float, float]:
    """To the sharding group and to the replicas by the program; all by the system."""
    model = gpt.GPT(SHAPE)
    way = build(shard, model, sgd)
    step(way, model, m)  # connections are opened by the first
    with wire.sent() as found:
        step(way, model, m)
    groups = (way.flats[0].group, way.replicas)
    inside, across = (found.by_group[group.group_name] for group in groups)  # type: ignore[union-attr]
    return inside, across, found.system


def sends(ranks: int, shard: int, m: int = 1) -> tuple[float, float]:
    """By the formula; what stands in no layer stays gathered."""
    how: dict[str, Any] = {"data": ranks, "stage": 3, "shard": shard, "micro_batches": m}
    how |= {"weight_bytes": NUMBER, "gradient_bytes": NUMBER}
    layers = volumes.zero(parameters=IN_LAYERS, **how)
    rest = volumes.zero(parameters=PARAMETERS - IN_LAYERS, keep_gathered=True, **how)
    both = [parts.amount("gradients, replicas") if shard < ranks else 0 for parts in (layers, rest)]
    return layers.total + rest.total - sum(both), sum(both)


def counted(cases: Sequence[tuple[int, int, int]]) -> dict[str, tuple[float, float]]:
    """Predicted and counted bytes of rank 0 in a step, by (ranks, degree, micro-batches)."""
    by_ranks = {ranks: [case for case in cases if case[0] == ranks] for ranks, *_ in cases}
    pairs: dict[str, tuple[float, float]] = {}
    for ranks, these in by_ranks.items():
        found = launch.run(lambda these=these: [_sent(S, m) for _, S, m in these], ranks)[0]
        for (_, S, m), (inside, across, system) in zip(these, found, strict=True):
            near, far = sends(ranks, S, m)
            name = f"N = {ranks}, S = {S}, m = {m}"
            pairs |= {f"{name}: group": (near, inside), f"{name}: replicas": (far, across)}
            pairs[f"{name}: system"] = near + far, system
    return pairs


# The messages of a step


def _messages(shard: int) -> dict[str, list[tuple[str, int]]]:
    way = build(shard, model := gpt.GPT(SHAPE), sgd)
    names = [*(f"blocks.{i}" for i in range(SHAPE.layers)), "the rest"]
    found: dict[str, list[tuple[str, int]]] = {"forward": [], "backward": [], "step": []}
    now = found["forward"]

    def noted(what: str, call: Callable, share: int) -> Callable:
        def run(first: Any, *more: Any) -> Any:
            i = [first is flat or first is flat.shard.grad for flat in way.flats].index(True)
            now.append((f"{what} of {names[i]}", way.flats[i].shard.nbytes * share))
            return call(first, *more)

        return run

    with (
        patch.object(Flat, "gather", noted("all-gather", Flat.gather, shard)),
        patch.object(Flat, "scatter", noted("reduce-scatter", Flat.scatter, shard)),
        patch.object(ring, "all_reduce", noted("all-reduce", ring.all_reduce, 1)),
    ):
        loss = oracle.loss(model, *micro_batches(1)[0])
        now = found["backward"]
        loss.backward()
        now = found["step"]
        way.step()
    return found


def messages(ranks: int = 4, shard: int = 2) -> dict[str, list[tuple[str, int]]]:
    """What every rank sends in each phase of a step, in order, and the bytes of the whole."""
    first, *others = launch.run(_messages, ranks, shard)
    assert all(other == first for other in others)
    return first


# What leaves a node


def _leaving(shard: int, staged: bool) -> int:
    model = gpt.GPT(SHAPE)
    way: Any = build(shard, model, sgd) if not staged else None
    way = way or Mics(model, sgd, model.blocks, shard=shard, ranks_per_node=NODE)  # type: ignore[arg-type]
    step(way, model)
    with wire.sent_to() as sent:
        step(way, model)
    return wire.leaving(sent, dist.get_rank(), NODE)


def leaving(ranks: int, cases: list[tuple[int, bool]]) -> list[int]:
    """Bytes that the first node sends to others in a step, by the system with gloo's headers, by
    degree; staged: by the library's class, whose gathers and scatters know the nodes.
    """
    found = launch.run(lambda: [_leaving(*case) for case in cases], ranks)
    return [sum(rank[i] for rank in found[:NODE]) for i in range(len(cases))]


def leaves(ranks: int, shard: int, staged: bool) -> float:
    """The same by the formula, without headers; what stands in no layer is gathered once."""
    how: dict[str, Any] = {"ranks": ranks, "shard": shard, "ranks_per_node": NODE}
    how |= {} if staged else {"gather": "ring", "scatter": "ring"}
    layers = hierarchical.step(payload=NUMBER * IN_LAYERS, **how)
    rest = hierarchical.step(payload=NUMBER * (PARAMETERS - IN_LAYERS), **how)
    return layers.total + rest.total - rest.amount("weights") / 2


def by_degree() -> dict[str, tuple[float, float]]:
    """Predicted and counted bytes that leave the first of four nodes, by degree and collectives."""
    names = ["1, DDP", "2, one node", "4, rings", "4, hierarchical", "8, ZeRO-3, rings"]
    names.append("8, hierarchical")
    cases = [(int(name[0]), "hierarchical" in name) for name in names]
    measured = leaving(8, cases)
    return {
        name: (leaves(8, *case), n) for name, case, n in zip(names, cases, measured, strict=True)
    }


# One norm for all shards


def norm(shards: Iterable[Any], group: ProcessGroup | None) -> Tensor:
    square = torch.stack([shard.grad.square().sum() for shard in shards]).sum()
    dist.all_reduce(square, group=group)
    return square.sqrt()


def clipping(make: Make, group: ProcessGroup | None, most: float) -> Make:
    """An optimizer that clips by the norm over a group just before its update."""

    def made(shards: Iterable[Any]) -> torch.optim.Optimizer:
        def clip(*_: Any) -> None:
            factor = (most / (norm(shards, group) + 1e-6)).clamp(max=1)
            for shard in shards:
                shard.grad *= factor

        optimizer = make(shards)
        optimizer.register_step_pre_hook(clip)
        return optimizer

    return made


def _clipped(over: str, steps: int) -> tuple[float, list[Tensor]]:
    sharding, replicas = mics.groups(2)
    group = {"own shard": mics.groups(1)[0], "all ranks": None, "sharding group": sharding}[over]
    norms: list[float] = []

    def measured(shards: Iterable[Tensor]) -> torch.optim.Optimizer:
        optimizer = sgd(shards)
        optimizer.register_step_pre_hook(lambda *_: norms.append(norm(shards, group).item()))
        return optimizer

    def way(model: gpt.GPT, make: Make) -> mics.Mics:
        return mics.Mics(model, make, model.blocks, sharding, replicas)

    weights = zero.trained(way, clipping(measured, group, MOST), steps=steps)
    return norms[0], weights


def clipped(steps: int = 2) -> dict[str, tuple[list[float], float]]:
    """Over one process's norm, those that four ranks in two replicas find in the first step; how
    far their weights are from its own after any: by where the squares are summed.
    """
    ways = ("own shard", "all ranks", "sharding group")
    by_rank = launch.run(lambda: [_clipped(over, steps) for over in ways], 4)
    model = gpt.GPT(SHAPE, seed=0).double()
    batches = [data.batch(zero.SEQUENCES, SHAPE.context, number) for number in range(steps)]
    oracle.loss(model, *batches[0]).backward()
    whole = oracle.flat_gradient(model).norm().item()
    wanted = oracle.one_process(model, batches, sgd(model.parameters()), clip=MOST)
    found = {}
    for over, ranks in zip(ways, zip(*by_rank, strict=True), strict=True):
        norms, histories = zip(*ranks, strict=True)
        found[over] = [n / whole for n in norms], zero.furthest(histories, wanted)
    return found
