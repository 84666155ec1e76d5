"""What the tests of ring attention and Ulysses share, in a module that ranks can import."""

from functools import cache, partial

import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import ring_attention, ulysses

BATCH, STEPS = 3, 3
PLAIN = {
    "ring": partial(ring_attention.RingAttention, order="plain"),
    "zigzag": partial(ring_attention.RingAttention, order="zigzag"),
    "ulysses": ulysses.Ulysses,
}


def shape(ranks, **changes):
    """Chunks of 3 tokens, heads of width 3, two for each rank, and a tied table or a bias more."""
    odd = {"heads": 2 * ranks, "width": 6 * ranks, "context": 6 * ranks, "tied": ranks == 3}
    return gpt.small(**odd | {"vocab": len(data.vocabulary())} | changes)


def batch(model, step):
    """Tokens, and targets of which some do not count, more on some ranks than on others."""
    tokens, targets = data.batch(BATCH, model.context, step)
    targets[:, : model.context // 3] = -100
    targets[0, -1] = -100
    return tokens, targets


def by_ranks(way, model, optimizer="SGD", steps=STEPS):
    whole = gpt.GPT(model, seed=dist.get_rank()).double()  # every rank starts elsewhere
    trained = PLAIN[way](whole, oracle.OPTIMIZERS[optimizer])
    history = []
    for step in range(steps):
        trained.loss(*batch(model, step)).backward()
        trained.step()
        history.append(oracle.flat_weights(whole))
    return history


@cache
def by_one(model, optimizer="SGD", steps=STEPS):
    whole = gpt.GPT(model).double()
    made = oracle.OPTIMIZERS[optimizer](whole.parameters())
    return oracle.one_process(whole, (batch(model, step) for step in range(steps)), made)


def apart(ranks, cases):
    """The cases in which a rank is not, after any step, where one process is; in one launch."""
    by_rank = launch.run(lambda: [by_ranks(*case) for case in cases], ranks)
    far = [
        oracle.distance([torch.cat(found[i]) for found in by_rank], torch.cat(by_one(*case[1:])))
        for i, case in enumerate(cases)
    ]
    return [(f, case) for f, case in zip(far, cases, strict=True) if not f < oracle.EQUAL]


def sent(way, model, dtype):
    """Bytes of a loss and its backward by this rank's program, and by the system."""
    whole = gpt.GPT(model).to(dtype)
    trained = PLAIN[way](whole, oracle.OPTIMIZERS["SGD"])
    for _ in range(2):  # connections are opened by the first
        with wire.sent() as found:
            trained.loss(*batch(model, 0)).backward()
    return found.program, found.system
