"""Ring attention and Ulysses by the plain files: the weights they end with, what they send, when
their ranks compute, and what a layer keeps.

N ranks · s tokens · a heads
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.meters import live, wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline.clocks import at_least
from mathlib.parallel.plain import ddp, ring_attention, ulysses
from mathlib.parallel.sequences import context
from mathlib.parallel.sequences.ring import Ring
from mathlib.traffic import volumes

SHAPE = gpt.small(width=48, heads=12, context=48, vocab=len(data.vocabulary()))
SEQUENCES, STEPS = 3, 3
WAYS = {
    "ring, plain": (ring_attention.RingAttention, {"order": "plain"}),
    "ring, zigzag": (ring_attention.RingAttention, {"order": "zigzag"}),
    "Ulysses": (ulysses.Ulysses, {}),
}
METHODS = {"ring, plain": "ring", "ring, zigzag": "ring", "Ulysses": "all-to-all"}


def build(way: str | Callable, model: gpt.GPT, make: Callable) -> Any:
    """The plain class of a way around the model, or what else makes one."""
    if not isinstance(way, str):
        return way(model, make)
    kind, how = WAYS[way]
    return kind(model, make, **how)


# Is it the training that one process does?


BROKEN = ("the blocks of others", "the average")


def _left_out(what: str) -> AbstractContextManager:
    if what == "the average":
        return patch.object(ddp.Naive, "average", lambda self: None)
    if what == "the blocks of others":
        pairs = ring_attention.pairs

        def own(order: str, r: int, source: int, P: int) -> list:
            return pairs(order, r, source, P) if r == source else []

        return patch.object(ring_attention, "pairs", own)
    return nullcontext()


def trained(way: str | Callable, optimizer: str, without: str = "") -> list[Tensor]:
    """Weights after every step, of ranks that began with different ones."""
    model = gpt.GPT(SHAPE, seed=dist.get_rank()).double()
    with _left_out(without):
        one = build(way, model, oracle.OPTIMIZERS[optimizer])
        history = []
        for step in range(STEPS):
            one.loss(*data.batch(SEQUENCES, SHAPE.context, step)).backward()
            one.step()
            history.append(oracle.flat_weights(model))
    return history


def distance(way: str | Callable, ranks: int, optimizer: str = "SGD", without: str = "") -> float:
    """How far any rank is, after any step, from one process that has whole sequences."""
    model, make = gpt.GPT(SHAPE).double(), oracle.OPTIMIZERS[optimizer]
    batches = (data.batch(SEQUENCES, SHAPE.context, step) for step in range(STEPS))
    wanted = torch.cat(oracle.one_process(model, batches, make(model.parameters())))
    found = launch.run(trained, ranks, way, optimizer, without)
    return oracle.distance([torch.cat(history) for history in found], wanted)


# What it sends


def sent(way: str) -> tuple[float, float]:
    """Bytes that a rank sends for a loss and its backward: by its program, by the system."""
    model = gpt.GPT(SHAPE)
    one = build(way, model, oracle.OPTIMIZERS["SGD"])
    for _ in range(2):  # connections are opened by the first
        with wire.sent() as found:
            one.loss(*data.batch(SEQUENCES, SHAPE.context)).backward()
    return found.program, found.system


def counted(ranks: int) -> dict[str, tuple[float, float]]:
    """By way: bytes by the formula, in 32 bits, and by the system."""
    found = launch.run(lambda: {way: sent(way) for way in WAYS}, ranks)[0]
    how = {"micro_batch": SEQUENCES, "bytes_per_element": 4, "gradient_bytes": 4}
    return {
        way: (
            volumes.context_parallel(SHAPE, context=ranks, method=METHODS[way], **how).total,  # type: ignore[arg-type]
            system,
        )
        for way, (_, system) in found.items()
    }


# When its ranks compute

BLOCK = 0.05  # seconds in which a paced rank computes a whole block
OWN = 16  # tokens of a rank
HEADS = (1, 2, OWN, 4)


class Counting:
    """A clock that no load of the machine disturbs: it counts scores."""

    def __init__(self) -> None:
        self.scores = list[int]()

    def __call__(self, scores: int) -> AbstractContextManager:
        self.scores.append(scores)
        return nullcontext()


def _both(ring: Ring) -> None:
    q, k, v = (torch.ones(HEADS, requires_grad=True) for _ in range(3))
    ring(q, k, v).sum().backward()


def scores(order: str) -> int:
    """That a rank computes, forward and backward."""
    clock = Counting()
    _both(Ring(order, watch=clock))
    return sum(clock.scores)


def at_work(order: str, ranks: int) -> float:
    """The share of its time in which a rank computes, on average, if the busiest never waits."""
    found = launch.run(scores, ranks, order)
    return sum(found) / ranks / max(found)


def paced(order: str, repeat: int = 2) -> float:
    """Seconds of forward and backward where a whole block takes `BLOCK`, by sleeping, so that a
    laptop's cores stand for as many devices as there are ranks; the best of some.
    """
    ring, best = Ring(order, watch=lambda n: at_least(BLOCK * n / OWN**2)), float("inf")
    for _ in range(repeat + 1):
        dist.barrier()
        start = time.perf_counter()
        _both(ring)
        dist.barrier()
        best = min(best, time.perf_counter() - start)
    return best


# What a layer keeps


def _kept(layers: int, tokens: int, heads: bool) -> int:
    shape = gpt.small(layers, width=32, heads=4, context=tokens)
    model, batch = gpt.GPT(shape, "flash"), torch.zeros(2, SEQUENCES, tokens, dtype=torch.long)
    N = dist.get_world_size()
    way = context.ContextParallel(model, *context.groups(N, N if heads else 1), order="plain")
    return live.held_bytes(lambda: way.loss(*batch), model, *batch)


def kept(tokens: int, ranks: int, heads: bool = False) -> int:
    """Bytes that a rank keeps of a layer: by a ring, or by an exchange of `heads`."""
    two, one = launch.run(lambda: [_kept(n, tokens, heads) for n in (2, 1)], ranks)[0]
    return two - one
