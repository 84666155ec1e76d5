"""Causal ring attention: queries stay, keys and values go round, and compute hides their way.

N ranks of the ring · B sequences · s tokens · a heads · k kv_heads · d head_dim
Forward, N - 1 blocks of K, V are sent; backward again, and N times dK, dV, in 32 bits at least:
they are added up on the way, and go home (Liu et al. 2023, arXiv:2310.01889). Blocks that lie
wholly in a rank's future are passed on, and not looked at.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError, one_of
from mathlib.parallel.messages import Message, finish, flat, rank_and_size, receive, send
from mathlib.parallel.sequences.block_kernels import KERNELS, add_block, each_key, each_query, wide
from mathlib.schedule import ring_order
from mathlib.schedule.ring_order import Look

Watch = Callable[[int], AbstractContextManager]  # told how many scores are computed inside


class _Attend(torch.autograd.Function):
    """Forward K, V go round; backward K, V go round, and dK, dV, which come home."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, ring: "Ring") -> Tensor:
        out, L = ring.forward(q, k, v)
        ctx.save_for_backward(q, k, v, out, L)
        ctx.ring = ring
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return *ctx.ring.backward(gradients[0], *ctx.saved_tensors), None


class Ring:
    """Attention of this rank's queries to the keys of all ranks of a group, which have as many
    tokens each, in the order that `schedule.ring_order` says.
    """

    def __init__(
        self,
        order: str = "zigzag",
        group: ProcessGroup | None = None,
        kernel: str = "flash",
        watch: Watch = nullcontext,
    ):
        self.order = one_of("order", order, ring_order.ORDERS)
        self.kernel, self.group = KERNELS[one_of("kernel", kernel, KERNELS)], group
        self.rank, self.ranks = rank_and_size(group)
        self.watch = watch

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # B a s/N d, B k s/N d twice
        check(q, k, v)
        return _Attend.apply(q, k, v, self)

    def seen(self, step: int, own: int) -> tuple[Look | None, int]:
        """What this rank looks at in a step, and how many scores it has."""
        source = (self.rank - step) % self.ranks
        found = ring_order.look(self.order, rank=self.rank, source=source, own=own)
        return found, ring_order.scores(self.order, rank=self.rank, source=source, own=own)

    def pass_on(self, give: Tensor) -> tuple[Tensor, tuple[Message, ...]]:
        """Begin to give to the right, and to take from the left what lies in the result then."""
        take, (r, N) = torch.empty_like(give), (self.rank, self.ranks)
        coming = receive(flat(take), (r - 1) % N, self.group)
        return take, (coming, send(flat(give), (r + 1) % N, self.group))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The result, and the logarithm of each query's sum of exp(score)."""
        kv = torch.stack([k, v])
        for step in range(self.ranks):
            coming, messages = self.pass_on(kv) if step < self.ranks - 1 else (kv, ())
            look, scores = self.seen(step, q.shape[2])
            if look:
                with self.watch(scores):
                    block = self.block(q, kv, look)
                if step == 0:  # every query sees itself: no sum is empty from here on
                    out, L = block[0].to(wide(q)), block[1].to(wide(q), copy=True)
                else:
                    add_block(out[:, :, look.first_query :], L[:, :, look.first_query :], *block)
            finish(*messages)
            kv = coming
        result = torch.empty_like(q.transpose(1, 2), memory_format=torch.contiguous_format)
        return result.copy_(out.transpose(1, 2)).transpose(1, 2), L  # as the projection reads it

    def block(self, q: Tensor, kv: Tensor, look: Look) -> tuple[Tensor, Tensor]:
        keys, values = each_query(kv[..., : look.keys, :], q.shape[1])
        return self.kernel.forward(q[:, :, look.first_query :], keys, values, look.causal)

    def backward(
        self, arrived: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, L: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of queries, keys and values, in their own types."""
        kv, dq = torch.stack([k, v]), torch.zeros_like(q, dtype=wide(q))
        coming, dkv = torch.zeros_like(kv, dtype=wide(q)), None
        in_flight: tuple[Message, ...] = ()
        for step in range(self.ranks):
            next_kv, messages = self.pass_on(kv) if step < self.ranks - 1 else (kv, ())
            look, scores = self.seen(step, q.shape[2])
            if look:
                with self.watch(scores):
                    part, own = self.gradients(look, kv, arrived, q, out, L)
            finish(*in_flight)
            dkv = coming
            if look:
                dq[:, :, look.first_query :] += part
                dkv[..., : look.keys, :] += own
            coming, in_flight = self.pass_on(dkv) if self.ranks > 1 else (dkv, ())
            finish(*messages)
            kv = next_kv
        finish(*in_flight)
        dk, dv = coming.to(k.dtype)
        return dq.to(q.dtype), dk, dv

    def gradients(
        self, look: Look, kv: Tensor, arrived: Tensor, q: Tensor, out: Tensor, L: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Those of the queries, and of the keys and values that they look at."""
        keys, values = each_query(kv[..., : look.keys, :], q.shape[1])
        arrived, q, out, L = (x[:, :, look.first_query :] for x in (arrived, q, out, L))
        dq, *dkv = self.kernel.backward(arrived, q, keys, values, out, L.contiguous(), look.causal)
        return dq, each_key(torch.stack(dkv).to(wide(q)), kv.shape[2])


def check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse heads that do not fit."""
    (B, a, s, d), shape = q.shape, tuple(k.shape)
    heads = shape[1] if len(shape) == 4 else 0
    if shape != tuple(v.shape) or shape != (B, heads, s, d) or not heads or a % heads:
        raise InputError(
            f"keys, values of shape {shape}, {tuple(v.shape)}: expected ({B}, a divisor of {a}, "
            f"{s}, {d}) both, as the queries have {tuple(q.shape)}"
        )
    if not q.dtype == k.dtype == v.dtype:
        told = f"{q.dtype}, {k.dtype}, {v.dtype}"
        raise InputError(f"queries, keys, values of {told}: expected one type")
