"""As a script, a plain file trains the small GPT and prints losses and bytes sent.

Under torchrun on its ranks, else on 4.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline import model_chunks
from mathlib.schedule import orders

MODEL = gpt.small(vocab=len(data.vocabulary()))
STEPS, SEQUENCES = 5, 12


def train(title: str, build: Callable, layers: bool = False, **options: Any) -> None:
    """Train by `build(model, make, **options).step`, always on the same batch."""

    def losses() -> None:
        model = gpt.GPT(MODEL, seed=dist.get_rank())
        given = [model.blocks] if layers else []
        way = build(model, torch.optim.Adam, *given, **options)
        batch = oracle.my_part(data.batch(SEQUENCES, MODEL.context))
        for _ in range(STEPS):
            with wire.counted() as sent:
                loss = model.loss(*batch)
                loss.backward()
                way.step()
            report(title, loss.item(), sent)

    run(losses)


def sequences(title: str, build: Callable, **options: Any) -> None:
    """Train by `build(model, make, **options)`: `loss` takes its part of sequences."""

    def losses() -> None:
        way = build(gpt.GPT(MODEL, seed=dist.get_rank()), torch.optim.Adam, **options)
        for _ in range(STEPS):
            with wire.counted() as sent:
                loss = way.loss(*data.batch(SEQUENCES, MODEL.context))
                loss.backward()
                way.step()
            report(title, loss.item(), sent)

    run(losses)


def pipeline(order: str, build: Callable) -> None:
    """Train by `build(chunks, schedule, width).run`, two chunks a stage at most."""

    def losses() -> None:
        p, stage = dist.get_world_size(), dist.get_rank()
        model = replace(MODEL, layers=2 * p, tied=False)
        schedule = orders.make(order, stages=p, micro_batches=p)
        chunks = model_chunks.build(model, schedule, stage)
        way = build(chunks, schedule, model.width)
        optimizer = torch.optim.Adam(model_chunks.named(chunks).values())
        for _ in range(STEPS):
            with wire.counted() as sent:
                loss = way.run(*data.batch(SEQUENCES, model.context))
            optimizer.step()
            optimizer.zero_grad()
            report(order, p * loss, sent)  # the last stage has it alone

    run(losses)


def tensor(title: str, cut: Callable, loss: Callable) -> None:
    """Train what `cut(model)` leaves a rank by `loss(model, tokens, targets)`."""

    def losses() -> None:
        model = cut(gpt.GPT(MODEL))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(STEPS):
            with wire.counted() as sent:
                found = loss(model, *data.batch(SEQUENCES, MODEL.context))
                found.backward()
            optimizer.step()
            optimizer.zero_grad()
            report(title, found.item(), sent)

    run(losses)


def run(on_a_rank: Callable[[], Any]) -> None:
    launch.run(on_a_rank, None if "RANK" in os.environ else 4)


def report(title: str, loss: float, sent: wire.Counted) -> None:
    """Means over the ranks; torch's collectives count as a ring would send."""
    ranks = dist.get_world_size()
    passes = sum(n * sent.payload[name] for name, (n, _) in wire.RINGS.items())
    seen = torch.tensor([loss, sent.sent + passes * (ranks - 1) / ranks]) / ranks
    dist.all_reduce(seen)
    if dist.get_rank() == 0:
        print(f"{title}: loss {seen[0]:.3f}, a rank sends {seen[1]:,.0f} bytes")
