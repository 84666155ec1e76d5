"""Ring attention against torch's own; its two orders on ranks whose pace is that of a device.

Paced, a block takes as long as its scores say, by sleeping, so that one core stands for many
devices: what is left is the order, and the time of messages. The plain ring's law has it that
zigzag is (2N-1)/N times as fast.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import rounds
import torch

from mathlib import launch
from mathlib.parallel.pipeline.clocks import at_least
from mathlib.parallel.sequences.ring import Ring
from mathlib.schedule import ring_order
from mathlib.trials import sequences_torch

HEADS, WIDTH = 8, 64
BLOCK = 0.06  # seconds in which a paced rank computes a whole block
Attention = Callable[..., torch.Tensor]


def step(attention: Attention, own: int) -> Callable[[], None]:
    """Forward and backward of a layer's attention, for so many tokens on this rank."""
    q, k, v = (torch.randn(1, HEADS, own, WIDTH, requires_grad=True) for _ in range(3))
    given = torch.ones(1, HEADS, own, WIDTH)

    def both() -> None:
        torch.autograd.backward(attention(q, k, v), given)

    return both


def race(own: int, count: int) -> rounds.Times:
    candidates = {}
    for order in ring_order.ORDERS:
        candidates[f"ring, {order}"] = step(Ring(order), own)
        candidates[f"torch, {order}"] = step(sequences_torch.ring_attention(order), own)
    return rounds.on_ranks(candidates, rounds=count)


def paced(count: int, own: int = 16) -> rounds.Times:
    def pace(scores: int) -> AbstractContextManager:
        return at_least(BLOCK * scores / own**2)

    candidates = {order: step(Ring(order, watch=pace), own) for order in ring_order.ORDERS}
    return rounds.on_ranks(candidates, rounds=count, warm_up=1)


def rows(quick: bool) -> Iterator[dict]:
    count = 2 if quick else 30
    for ranks in (2, 4):
        for own in (256,) if quick else (256, 1024):
            times = launch.run(race, ranks, own, count, timeout=900)[0]
            for order in ring_order.ORDERS:
                label = f"ring attention, {own} tokens a rank, {order}, {ranks} ranks"
                pair = (f"ring, {order}", f"torch, {order}")
                yield rounds.row(label, times, *pair, ranks=ranks, tokens=own)
    for ranks in (2,) if quick else (2, 4, 8):
        times = launch.run(paced, ranks, 2 if quick else 5, timeout=900)[0]
        law = 1 / ring_order.efficiency("plain", ranks=ranks)
        label = f"paced ranks, by the law {law:.2f}, {ranks} ranks"
        yield rounds.row(label, times, "zigzag", "plain", ranks=ranks, law=law)
