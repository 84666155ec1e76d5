"""PyTorch's HSDP beside plain MiCS: the weights of one process, and when replicas meet.

Apart from `trials.mics`, whose ranks then need not load what shards in PyTorch.
"""

import torch
from torch import Tensor

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.trials import mics, zero, zero_torch


def _distances() -> list[float]:
    """How far HSDP on two replicas of two shards is from one process, by optimizer."""

    def run() -> list[list[Tensor]]:
        weights = zero_torch.weights_after_steps
        return [weights(["HSDP"], name)["HSDP"] for name in oracle.OPTIMIZERS]

    histories = zip(*launch.run(run, 4), strict=True)
    pairs = zip(histories, oracle.OPTIMIZERS, strict=True)
    return [zero.furthest(found, zero_torch.by_one(name)) for found, name in pairs]


def against_one_process() -> dict[str, list[float]]:
    """How far four ranks are from one process, by SGD and by Adam; the last must be apart."""
    names, degrees = list(oracle.OPTIMIZERS), (1, 2, 4)
    far = mics.distances(4, [(S, name) for S in degrees for name in names])
    found = {f"MiCS, S = {S}": far[2 * i : 2 * i + 2] for i, S in enumerate(degrees)}
    found["HSDP, S = 2"] = _distances()
    apart = mics.distances(4, [(2, name) for name in names], silent=True)
    return found | {"S = 2, replicas apart": apart}


def _calls(tell: bool, m: int) -> tuple[list[list[int]], int, Tensor]:
    model, *_ = zero_torch.fsdp2(gpt.GPT(zero_torch.MODEL).double(), torch.optim.SGD, {}, 2)
    parts = zip(*(t.chunk(m) for t in data.batch(8 * m, zero_torch.MODEL.context)), strict=True)
    names, calls, summed = ("_allgather_base_", "_reduce_scatter_base_", "allreduce_"), [], 0
    for i, part in enumerate(parts):
        if tell:
            model.set_requires_all_reduce(i == m - 1)  # type: ignore[operator]
        with wire.counted() as program:
            oracle.loss(model, *oracle.my_part(part)).backward()
        calls.append([program.calls[name] for name in names])
        summed += program.payload["allreduce_"]
    gradients = [p.grad.full_tensor().flatten() for p in model.parameters()]  # type: ignore[union-attr]
    return calls, summed, torch.cat(gradients)


def calls(m: int = 2) -> list[tuple[list[list[int]], int, Tensor]]:
    """Gathers, scatters and sums over replicas of HSDP in each micro-batch's backward pass; bytes
    of the sums; the gradient: as it is, and told which backward pass is the last.
    """
    return launch.run(lambda: [_calls(tell, m) for tell in (False, True)], 4)[0]
