"""As a script, a plain file trains the small GPT and prints losses and bytes sent.

Under torchrun on its ranks, else on 4, or on 8 where three axes meet.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, modern, oracle
from mathlib.parallel.pipeline import model_chunks
from mathlib.schedule import orders
from mathlib.specs import Experts

MODEL = gpt.small(vocab=len(data.vocabulary()))
SPARSE = MODEL.but(
    **{"positions": "rotary", "norm": "rmsnorm", "gated": True, "mlp_bias": False},
    experts=Experts(routed=8, active=2, width=64),
)
STEPS, SEQUENCES = 5, 12


def train(title: str, build: Callable, layers: bool = False, **options: Any) -> None:
    """Train by `build(model, make, **options).step`, always on the same batch."""

    def losses() -> None:
        model = gpt.GPT(MODEL, seed=dist.get_rank())
        given = [model.blocks] if layers else []
        way = build(model, torch.optim.Adam, *given, **options)
        batch = oracle.my_part(data.batch(SEQUENCES, MODEL.context))
        steps(title, lambda: model.loss(*batch), way.step)

    run(losses)


def replicas(title: str, build: Callable) -> None:
    """Train by `build(model, make, store, seat, seats).step`; the first rank has the store."""

    def losses() -> None:
        seat, port = dist.get_rank(), torch.zeros(1, dtype=torch.int)
        if seat == 0:
            store = dist.TCPStore("localhost", 0, is_master=True)
            port[0] = store.port
        dist.broadcast(port, 0)
        if seat:
            store = dist.TCPStore("localhost", int(port))
        model, seats = gpt.GPT(MODEL, seed=seat), dist.get_world_size()
        way = build(model, torch.optim.Adam, store, seat, seats)
        batch = oracle.my_part(data.batch(SEQUENCES, MODEL.context))
        steps(title, lambda: model.loss(*batch), way.step)

    run(losses)


def sequences(title: str, build: Callable, **options: Any) -> None:
    """Train by `build(model, make, **options)`: `loss` takes its part of sequences."""

    def losses() -> None:
        way = build(gpt.GPT(MODEL, seed=dist.get_rank()), torch.optim.Adam, **options)
        batch = data.batch(SEQUENCES, MODEL.context)
        steps(title, lambda: way.loss(*batch), way.step)

    run(losses)


def experts(title: str, build: Callable, **options: Any) -> None:
    """Train a decoder with experts by `build(model, make, **options)`, on parts of a batch."""

    def losses() -> None:
        model = modern.Modern(SPARSE, seed=dist.get_rank())
        way = build(model, torch.optim.Adam, **options)
        batch = oracle.my_part(data.batch(SEQUENCES, MODEL.context))
        steps(title, lambda: way.loss(*batch), way.step)

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
        batch = data.batch(SEQUENCES, MODEL.context)

        def step() -> None:
            optimizer.step()
            optimizer.zero_grad()

        steps(title, lambda: loss(model, *batch), step)

    run(losses)


def together(title: str, build: Callable) -> None:
    """Train by `build(model, make).step` on a batch that all 8 ranks have."""

    def losses() -> None:
        way = build(gpt.GPT(MODEL), torch.optim.Adam, clip=1.0)
        for _ in range(STEPS):
            with wire.counted() as sent:
                loss = way.step(*data.batch(SEQUENCES, MODEL.context))
            report(title, loss, sent)

    run(losses, 8)


def roles(title: str, trainer: Callable, writer: Callable, writers: int) -> None:
    """Reward vowels: some ranks write and train, or train while others write."""

    def rewards() -> None:
        ranks, rank = dist.get_world_size(), dist.get_rank()
        N, model = ranks - writers, gpt.GPT(MODEL)
        group = dist.new_group(range(N))
        if rank < N:
            own = (group,) if writers else ()
            way = trainer(model, partial(torch.optim.Adam, lr=0.01), vowels, *own)
        else:
            way = writer(model, N)
        for number in range(STEPS):
            prompts, dice = replies(N, number)
            with wire.counted() as sent:
                given = (prompts[rank], dice[rank], 4) if rank < N else (prompts, dice)
                earned = way.step(*given)
            told = earned if rank < N else 0.0
            report(title, told * ranks / N, sent, what="reward")

    run(rewards)


def vowels(text: torch.Tensor) -> torch.Tensor:
    """The share of each reply that is a vowel."""
    return torch.isin(text, data.encode("aeiou")).double().mean(1)


def replies(ranks: int, number: int, T: int = 16) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """For each rank one prompt four times, and the dice of its replies."""
    prompts = data.batch(ranks, 8, number)[0].repeat_interleave(4, 0)
    toss = torch.Generator().manual_seed(number)
    noise = torch.rand(len(prompts), T, MODEL.vocab, generator=toss, dtype=torch.double)
    dice = -(-noise.clamp(1e-12).log()).log()
    return list(prompts.chunk(ranks)), list(dice.chunk(ranks))


def steps(title: str, loss: Callable[[], torch.Tensor], step: Callable[[], None]) -> None:
    """Always on the same batch; what is said of each."""
    for _ in range(STEPS):
        with wire.counted() as sent:
            value = loss()
            value.backward()
            step()
        report(title, value.item(), sent)


def run(on_a_rank: Callable[[], Any], ranks: int = 4) -> None:
    launch.run(on_a_rank, None if "RANK" in os.environ else ranks)


def report(title: str, loss: float, sent: wire.Counted, what: str = "loss") -> None:
    """Means over the ranks; torch's collectives count as a ring would send."""
    ranks = dist.get_world_size()
    seen = torch.tensor([loss, float(sent.sent + sent.passed)]) / ranks
    dist.all_reduce(seen)
    if dist.get_rank() == 0:
        print(f"{title}: {what} {seen[0]:.3f}, a rank sends {seen[1]:,.0f} bytes")
