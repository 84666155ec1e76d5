"""Adapters on several ranks: what replicas and shards send, and what stays whole on every one.

N ranks · K bytes of what they exchange
"""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from mathlib import launch
from mathlib.compute import params
from mathlib.memory import adapters, states
from mathlib.meters import wire
from mathlib.model import lora, oracle
from mathlib.parallel.plain.ddp import DDP
from mathlib.trials.after import METHODS, NUMBER, RANK, SHAPE, batch, built, trained

OWN = NUMBER * params.lora(SHAPE, rank=RANK, targets=adapters.TARGETS).total  # bytes of adapters
ALL = NUMBER * params.total(SHAPE)
LAYERS = NUMBER * sum(one.parameters for one in params.matrices(SHAPE)[:-1])  # matrices
NORMS = NUMBER * 2 * SHAPE.layers * SHAPE.width  # of layers
HELD = states.adapters(LAYERS / NUMBER, 1, base="nf4", block=64, second_block=256)
QUARTER = HELD.amount("frozen weights") + HELD.amount("scales")  # of matrices in 4 bits
STEPS = 3
KEPT = ("LoRA", "QLoRA, buffers", "QLoRA, parameters")  # where 4-bit matrices lie under FSDP
Case = tuple[str, str, bool]  # method, optimizer, whether gradients are averaged


def _replica(method: str, optimizer: str) -> tuple[nn.Module, DDP]:
    net = built(method).double()
    return net, DDP(nn.ParameterList(trained(net)), oracle.OPTIMIZERS[optimizer])


def _row(net: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in trained(net)])


def _histories(cases: list[Case]) -> list[list[Tensor]]:
    many, found = 2 * dist.get_world_size(), []
    for method, optimizer, exchange in cases:
        net, way = _replica(method, optimizer)
        if not exchange:
            way.average = way.begin  # type: ignore[method-assign]
        found.append(list[Tensor]())
        for number in range(STEPS):
            oracle.loss(net, *oracle.my_part(batch(number=number, many=many))).backward()
            way.step()
            found[-1].append(_row(net))
    return found


def distances(ranks: int, cases: list[Case]) -> list[float]:
    """How far replicas are from one process at the most, of all steps."""
    of_ranks, most = launch.run(_histories, ranks, cases), []
    for i, (method, optimizer, _) in enumerate(cases):
        net, steps = built(method).double(), []
        made = oracle.OPTIMIZERS[optimizer](trained(net))
        for number in range(STEPS):
            oracle.loss(net, *batch(number=number, many=2 * ranks)).backward()
            made.step()
            made.zero_grad()
            steps.append(oracle.distance([found[i][number] for found in of_ranks], _row(net)))
        most.append(max(steps))
    return most


class Sent(NamedTuple):
    """Bytes that a rank sends in a step."""

    formula: float
    program: float
    system: float


def _sent() -> dict[str, tuple[float, float]]:
    found = {}
    for method in METHODS:
        net = built(method)
        way = DDP(nn.ParameterList(trained(net)), oracle.OPTIMIZERS["SGD"])
        with wire.sent() as counts:
            oracle.loss(net, *batch()).backward()
            way.step()
        found[method] = counts.program, counts.system
    return found


def replicas(ranks: int) -> dict[str, Sent]:
    """Data parallel: the gradients of what is trained, 2 K (N-1)/N, in the mean of all ranks.

    Chapter: after (eq-adapter-sent)
    """
    of_ranks = launch.run(_sent, ranks)
    found = {}
    for method in METHODS:
        own = ALL if method == "full" else OWN
        mean = [sum(one[method][i] for one in of_ranks) / ranks for i in (0, 1)]
        found[method] = Sent(2 * own * (ranks - 1) / ranks, *mean)
    return found


class Sharded(NamedTuple):
    """Of torch's FSDP in a step: payloads of gathers and of scatters, in bytes."""

    gathered: float
    scattered: float


def _cut(net: nn.Module) -> nn.Module:
    for block in net.blocks:  # type: ignore[union-attr]
        fully_shard(block)
    fully_shard(net)
    return net


def _sharded() -> dict[str, Sharded]:
    found = {}
    for method in METHODS:
        net = _cut(built(method))
        with wire.counted() as program:
            oracle.loss(net, *oracle.my_part(batch(many=dist.get_world_size()))).backward()
        sums = [
            sum(n for call, n in program.payload.items() if kind in call)
            for kind in ("gather", "scatter")
        ]
        found[method] = Sharded(*sums)
    return found


def sharded(ranks: int) -> dict[str, Sharded]:
    """What the first rank of FSDP counts: layers are gathered forward and backward, the rest once;
    gradients are scattered of what is trained alone.

    Chapter: after (eq-adapters-gathered)
    """
    return launch.run(_sharded, ranks)[0]


def told(method: str) -> Sharded:
    """The same by formula; 4-bit matrices are no parameters, and stay where they are."""
    ends = ALL - LAYERS - NORMS
    if method == "full":
        return Sharded(2 * (LAYERS + NORMS) + ends, ALL)
    frozen = NORMS if method == "QLoRA" else LAYERS + NORMS
    return Sharded(2 * (frozen + OWN) + ends, OWN)


def packed(own: bool) -> nn.Module:
    """QLoRA in 16 bits, its 4-bit matrices and their scales in buffers, or as parameters."""
    net = built("QLoRA").bfloat16()
    for module in net.modules() if own else ():
        if isinstance(module, lora.Nf4Linear):
            for name in ("packed", "scales"):
                held = getattr(module, name)
                delattr(module, name)
                module.register_parameter(name, nn.Parameter(held, requires_grad=False))
    return net


def _at_rest() -> dict[str, int]:
    found = {}
    for name in KEPT:
        net = _cut(built(name).bfloat16() if name == "LoRA" else packed(name == KEPT[-1]))
        shards = [p.to_local() if isinstance(p, DTensor) else p for p in net.parameters()]
        found[name] = sum(t.nbytes for t in (*shards, *net.buffers()))
    return found


def at_rest(ranks: int) -> dict[str, tuple[float, float]]:
    """Bytes of weights and adapters on a rank of FSDP in 16 bits: by formula, and measured on the
    fullest. Matrices in 4 bits are whole on every rank as buffers, and in shards as parameters.
    """
    measured, found = launch.run(_at_rest, ranks), {}
    for name in KEPT:
        bits = QUARTER if name != "LoRA" else 0
        rest = (ALL + OWN - (LAYERS if bits else 0)) / 2
        each = bits if name == "QLoRA, buffers" else bits / ranks
        found[name] = each + rest / ranks, max(one[name] for one in measured)
    return found
