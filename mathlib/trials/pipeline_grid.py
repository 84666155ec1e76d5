"""Two stages, two replicas and two tensor ranks in one step: `parallel/plain/together.py` on eight
processes beside one, and with each axis cut once.
"""

from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from mathlib import launch, specs
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import ring, tensor, zero
from mathlib.parallel.plain.together import Together

SHAPE = gpt.small(layers=4, width=32, heads=4, context=16, vocab=64)
STEPS, SEQUENCES, MICRO_BATCHES = 3, 16, 4
SGD = oracle.OPTIMIZERS["SGD"]
receive = Together.receive


def _nothing_back(self: Together, tokens: Tensor, step: int) -> Tensor:
    given = receive(self, tokens, step)
    return given if step < 0 else torch.zeros_like(given)


def _own(flat: Tensor, group: Any) -> Tensor:
    rank, ranks = ring.place(group)
    return flat.chunk(ranks)[rank]


CUT: dict[str, Any] = {  # what stands in for the exchange along an axis
    "partial sums": (tensor.AllReduceForward, "forward", staticmethod(lambda ctx, x, _: x)),
    "gradients between stages": (Together, "receive", _nothing_back),
    "gradients of the other replica": (zero.ring, "reduce_scatter", _own),
}


def _trained(without: str) -> tuple[list[float], int, int]:
    with patch.object(*CUT[without]) if without else nullcontext():
        way = Together(gpt.GPT(SHAPE).double(), SGD, micro_batches=MICRO_BATCHES)
        losses = [way.step(*data.batch(SEQUENCES, SHAPE.context, n)) for n in range(STEPS)]
    flats = way.flats.values()
    held = sum(p.numel() for flat in flats for p in flat.parameters)
    return losses, held, sum(flat.shard.numel() for flat in flats)


def by_one() -> list[float]:
    """Losses of one process."""
    model = gpt.GPT(SHAPE).double()
    make = SGD(model.parameters())
    return [
        oracle.step(model, make, *data.batch(SEQUENCES, SHAPE.context, n)) for n in range(STEPS)
    ]


def in_three() -> tuple[dict[str, float], list[tuple[float, float]]]:
    """How far losses are from one process's in three steps, as it is and with an axis cut; of each
    rank the shares of weights and of optimizer states.
    """
    ways, wanted = ["", *CUT], by_one()
    ranks = launch.run(lambda: [_trained(without) for without in ways], 8)
    far = {}
    for without, (losses, _, _) in zip(ways, ranks[0], strict=True):
        far[without] = max(abs(a - b) for a, b in zip(losses, wanted, strict=True))
    whole = sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
    return far, [(held / whole, own / whole) for (_, held, own), *_ in ranks]


def fed(stages: int = 8, each: int = 4) -> int:
    """Replicas that the batch of GPT-3's training feeds, with so many micro-batches a stage."""
    return int(3.2e6) // specs.find_model("gpt3-175b").context // (stages * each)
