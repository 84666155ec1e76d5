"""Two roles of one model in a real run: who writes, on the same ranks or on others; weights after
every step, and bytes that resharding sends.

N ranks that train · K bytes of the weights
"""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import gpt, oracle
from mathlib.parallel.plain import grpo, script
from mathlib.parallel.plain.zero import Zero

SHAPE, STEPS, G = script.MODEL, 2, 4  # G replies to a prompt
LOUD = 4.0  # times the first weights, so that what is written depends on them


def built() -> gpt.GPT:
    model = gpt.GPT(SHAPE).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(LOUD if weight.dim() > 1 else 1)
    return model


def _way(N: int, optimizer: str, stale: bool) -> Any:
    make = oracle.OPTIMIZERS[optimizer]
    group, apart = dist.new_group(range(N)), dist.get_world_size() > N
    if dist.get_rank() >= N:
        if stale:  # takes the weights, and writes with its own
            grpo.vector_to_parameters = lambda *given: None  # type: ignore[attr-defined]
        return grpo.Writer(built(), N)
    if apart:
        return grpo.Apart(built(), make, script.vowels, group)
    return grpo.Together(built(), make, script.vowels)


class Course(NamedTuple):
    """Of a rank: weights after each step, a writer's those it wrote with; bytes sent in one."""

    weights: list[Tensor]
    program: float
    system: float


def _course(N: int, optimizer: str, stale: bool) -> Course:
    way, rank, found = _way(N, optimizer, stale), dist.get_rank(), []
    for number in range(STEPS):
        prompts, dice = script.replies(N, number)
        with wire.sent() as counts:
            way.step(*((prompts[rank], dice[rank], G) if rank < N else (prompts, dice)))
        whole = way.whole() if rank < N else oracle.flat_weights(way.model)
        found.append(whole.clone())
        if rank < N:
            way.release()
    return Course(found, counts.program, counts.system)


def one_process(N: int, optimizer: str, steps: int = STEPS) -> list[Tensor]:
    """Weights after every step on the prompts of all."""
    model, first, found = built(), built(), []
    made = oracle.OPTIMIZERS[optimizer](model.parameters())
    for number in range(steps):
        prompts, dice = (torch.cat(of) for of in script.replies(N, number))
        text = grpo.write(model, prompts, dice)
        earned = script.vowels(text[:, -dice.shape[1] :]).view(-1, G)
        grpo.loss(model, first, text, earned, dice.shape[1]).backward()
        made.step()
        made.zero_grad()
        found.append(oracle.flat_weights(model).clone())
    return found


class Found(NamedTuple):
    """Of a run: the farthest any trainer is from one process, any writer from the trainers' step
    before; bytes that each rank sends in a step, by its program and by the system.
    """

    trainers: float
    writers: float
    program: list[float]
    system: list[float]


def run(N: int, M: int = 0, optimizer: str = "Adam", stale: bool = False) -> Found:
    """Both roles on ranks: the weights after every step beside those of one process.

    Chapter: after (eq-grpo)
    """
    courses = launch.run(_course, N + M, N, optimizer, stale)
    wanted, first = one_process(N, optimizer), oracle.flat_weights(built())
    far, wrote = [], [0.0]
    for step in range(STEPS):
        far.append(oracle.distance([c.weights[step] for c in courses[:N]], wanted[step]))
        before = courses[0].weights[step - 1] if step else first
        wrote += [oracle.distance([c.weights[step]], before) for c in courses[N:]]
    sent = [[c.program for c in courses], [c.system for c in courses]]
    return Found(max(far), max(wrote), *sent)


def _zero() -> tuple[float, float]:
    """Bytes that ZeRO-3 sends in such a step without writing; of its padded weights."""
    model = built()
    way = Zero(model, oracle.OPTIMIZERS["SGD"], model.blocks, 3)
    prompts, dice = (of[dist.get_rank()] for of in script.replies(dist.get_world_size(), 0))
    text = torch.cat([prompts, prompts], 1)
    earned = torch.rand(len(text) // G, G, dtype=torch.double)
    with wire.counted() as counted:
        grpo.loss(model, built(), text, earned, min(dice.shape[1], 8)).backward()
        way.step()
    return float(counted.sent + counted.passed), sum(8 * flat.whole.numel() for flat in way.flats)


def told(N: int, M: int = 0) -> list[float]:
    """Bytes that each rank sends in a step: ZeRO-3's, a gather of all weights, and apart a copy of
    them from M trainers, one to each writer; writers send texts.

    Chapter: after (eq-reshard)
    """
    zero, K = launch.run(_zero, N)[0]
    exact = 8 * len(oracle.flat_weights(built()))
    trainers = [zero + K * (N - 1) / N + (exact if r < M else 0) for r in range(N)]
    prompts, dice = script.replies(N, 0)
    texts = [8 * len(p) * (p.shape[1] + d.shape[1]) for p, d in zip(prompts, dice, strict=True)]
    return trainers + [float(sum(texts[w::M])) for w in range(M)]
