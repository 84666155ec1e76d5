"""Context parallelism: ranks share every sequence, by ring attention, by Ulysses, or by both.

P ranks of a ring · U ranks that exchange heads, inside · s tokens of a sequence, s/(P U) on a rank
Neighbours exchange heads, since that needs the faster link; the ring goes across. Weights are whole
on all ranks, and gradients are averaged over them by whatever does so for data parallelism: DDP,
ZeRO, MiCS. Outside of attention nothing else is sent.
"""

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError, divides
from mathlib.model import gpt
from mathlib.model.gpt import GPT
from mathlib.model.modern import Attention, Grouped, Modern
from mathlib.model.oracle import NOT_COUNTED
from mathlib.parallel.collectives import process_group_of
from mathlib.parallel.pipeline.model_chunks import Chunk
from mathlib.parallel.sequences.ring import Ring, Watch
from mathlib.parallel.sequences.ulysses import Ulysses, check_heads
from mathlib.schedule import ring_order


def groups(context: int, ulysses: int = 1) -> tuple[ProcessGroup, ProcessGroup]:
    """Process groups of the ring, and of the ranks that exchange heads, of which this rank is one:
    `context` consecutive ranks share a sequence, `ulysses` consecutive ones exchange heads.
    """
    world = dist.get_world_size()
    divides("context", context, "ranks", world)
    inner = divides("ulysses", ulysses, "context", context)
    starts = range(0, world, context)
    rings = [
        list(range(first + u, first + context, inner)) for first in starts for u in range(inner)
    ]
    neighbours = [list(range(first, first + inner)) for first in range(0, world, inner)]
    return process_group_of(rings), process_group_of(neighbours)


class ContextParallel:
    """Changes a GPT or a Modern in place, or a chunk of one: `loss` takes whole sequences, and this
    rank's part of them.

    Sequences of any length: they are filled up to a multiple of the ranks (twice that in zigzag)
    with tokens that come last and do not count, so that no other token sees them.
    """

    def __init__(
        self,
        model: GPT | Modern | Chunk,
        ring: ProcessGroup | None = None,
        heads: ProcessGroup | None = None,
        *,
        order: str = "zigzag",
        kernel: str = "flash",
        watch: Watch = nullcontext,
    ):
        if not isinstance(model, GPT | Modern | Chunk):
            raise InputError(f"model of type {type(model).__name__}: expected a GPT or a Modern")
        self.model, self.ring = model, Ring(order, ring, kernel, watch)
        self.attention = Ulysses(self.ring, heads) if heads is not None else self.ring
        self.inner = (dist.get_rank(heads), dist.get_world_size(heads)) if heads else (0, 1)
        check_heads(self.inner[1], heads=model.model.heads, kv_heads=model.model.kv_heads)
        self.places = torch.empty(0, dtype=torch.long)
        self.forward: Any = model  # or what wraps it: DDP(model)
        cut(model, self)

    @property
    def ranks(self) -> int:
        """That share a sequence."""
        return self.ring.ranks * self.inner[1]

    def mine(self, tokens: int) -> Tensor:
        """The places of this rank's tokens in a sequence of so many, a multiple of `multiple`."""
        ring, (u, U) = self.ring, self.inner
        held = ring_order.places(ring.order, ranks=ring.ranks, rank=ring.rank, tokens=tokens)
        return torch.tensor([place for one in held for place in one]).chunk(U)[u]

    @property
    def multiple(self) -> int:
        """What divides the length of a sequence, once it is filled up."""
        return self.ranks * (2 if self.ring.order == "zigzag" else 1)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Of whole sequences, on all ranks alike, this rank's share, so weighted that the mean over
        ranks is the mean over all tokens that count; and so with gradients.
        """
        s = tokens.shape[1]
        mine = self.mine(s + -s % self.multiple)
        own, wanted = picked(mine, tokens, targets)
        self.places = mine.clamp(max=s - 1).to(tokens.device)
        places = [self.places] if isinstance(self.model, GPT) else []
        logits = self.forward(own, *places).flatten(0, 1)
        total = F.cross_entropy(logits, wanted.flatten(), ignore_index=NOT_COUNTED, reduction="sum")
        return self.ranks * total / (targets != NOT_COUNTED).sum()


def picked(places: Tensor, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """What stands at these places; behind the end are tokens that do not count."""
    more = max(0, int(places.max()) + 1 - tokens.shape[1])
    own, wanted = (
        F.pad(x, (0, more), value=fill)[:, places.to(x.device)]
        for x, fill in ((tokens, 0), (targets, NOT_COUNTED))
    )
    return own, wanted


def cut(model: GPT | Modern | Chunk, context: ContextParallel) -> None:
    """Let every layer's attention look at the keys of all ranks; names of parameters stay."""
    for number, block in model.blocks.named_children():
        own: Any = block.attention
        if isinstance(own, gpt.Attention):
            own.core = context.attention
            continue
        check_layer(number, own, model.model.context)
        own.forward = partial(_attend, own, context)


def check_layer(number: str, own: Attention, reach: int) -> None:
    """Refuse what a ring of whole blocks does not compute."""
    if not isinstance(own.heads, Grouped):
        raise InputError(f"layer {number} has latent heads: expected ordinary or grouped ones")
    if own.window < reach:
        raise InputError(
            f"layer {number} looks {own.window} tokens back: expected all {reach}, without windows"
        )


def _attend(own: Attention, context: ContextParallel, x: Tensor) -> Tensor:  # B s/(P U) h
    heads: Any = own.heads
    q, k, v = heads.shared(x, context.places)
    return own.out(context.attention(q, k, v).transpose(1, 2).flatten(2))
