"""Flat shards: parameters laid end to end in one row, padded, and cut into N equal shards.

N ranks of the group, numbered 0..N-1    r this rank, which keeps shard r
K bytes of the row
Everything that ZeRO shards (Rajbhandari et al. 2020) is a piece of such a row: an optimizer that
treats every element by itself does not mind that a piece begins in the middle of a matrix.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.checks import InputError, ceil_div
from mathlib.meters.trace import Trace
from mathlib.parallel.buckets import check_dense, slot, type_and_place

# torch 2.13 has a new name for it
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
SILENT = Trace(on=False)


class Transfer:
    """A collective in flight: in the trace from its start to its end on the wire, and the wait for
    it as idle time.
    """

    def __init__(self, start: Callable[[], dist.Work], what: str, bytes: int, trace: Trace):
        self.what, self.trace = what, trace
        end = trace.begin(what, "communication", bytes)
        self.work = start()
        self.noted = self.work.get_future().then(lambda _: end()) if trace.on else None

    def wait(self) -> None:
        """Wait until it has ended, and stands in the trace."""
        with self.trace.span(f"wait for {self.what}", "idle"):
            self.work.wait()
            if self.noted:
                self.noted.wait()


def all_gather(
    row: Tensor,
    piece: Tensor,
    group: ProcessGroup | None = None,
    *,
    what: str = "all-gather",
    trace: Trace = SILENT,
) -> Transfer:
    """Begin to fill the row with the shards of all ranks: a rank sends K (N-1)/N."""

    def start() -> dist.Work:
        return _all_gather(row, piece, group=group, async_op=True)

    return Transfer(start, what, row.nbytes, trace)


class Arriving(Protocol):
    """What is in flight, and can be waited for."""

    def wait(self) -> Any: ...


Fill = Callable[[str, Tensor], Any]  # of a parameter's name, and the tensor for its first numbers
Gather = Callable[..., Arriving]  # all_gather, or what is called as it is


class Scattering:
    """A reduce-scatter in flight: rank r gets shard r of the sum; a rank sends K (N-1)/N.

    Every rank sends each other rank that rank's piece, and adds up what it gets. gloo's own
    reduce-scatter is an all-reduce whose result is cut, and sends twice as much.
    """

    def __init__(
        self,
        row: Tensor,
        group: ProcessGroup | None = None,
        *,
        what: str = "reduce-scatter",
        trace: Trace = SILENT,
    ):
        self.row, self.arrived = row, torch.empty_like(row)  # the row must live until all is sent
        self.ranks = dist.get_world_size(group)

        def start() -> dist.Work:
            return dist.all_to_all_single(self.arrived, row, group=group, async_op=True)

        self.work = Transfer(start, what, row.nbytes, trace)

    def wait(self, dtype: torch.dtype) -> Tensor:
        """The piece, added up in numbers of this type."""
        self.work.wait()
        return self.arrived.view(self.ranks, -1).sum(0, dtype=dtype)


class FlatShard:
    """Parameters that travel together, and this rank's part of them, `shard`.

    `kept` says whether the whole row stays (stages 1 and 2) or comes and goes (stage 3).
    `fill` writes the parameters' first numbers into the row, in place of those that they have.
    `master` keeps the shard in fp32, whatever the type of the parameters; `name` is what the
    `trace` calls the row.

    Chapter: zero (eq-slice)
    """

    def __init__(
        self,
        names: Mapping[nn.Parameter, str],
        group: ProcessGroup | None = None,
        *,
        kept: bool = True,
        master: bool = False,
        gather: Gather = all_gather,
        fill: Fill | None = None,
        name: str = "the row",
        trace: Trace = SILENT,
    ):
        self.names, self.group, self.kept, self.how = names, group, kept, gather
        self.name, self.trace = name, trace
        self.ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        first = next(iter(names))
        self.sizes = [p.numel() for p in names]
        self.length = ceil_div(sum(self.sizes), self.ranks)
        self.row = torch.zeros(self.ranks * self.length, dtype=first.dtype, device=first.device)
        self.slots = {p: slot(part, p) for p, part in self._parts(self.row)}
        for p, place in self.slots.items():
            if fill:
                fill(names[p], place)
            else:
                place.copy_(p.data)
            p.data = place
        self.piece = self.row[rank * self.length : (rank + 1) * self.length]
        own = self.piece.float() if master else self.piece
        self.shard = nn.Parameter(own if own is not self.piece or kept else own.clone())
        self.shard.requires_grad_(first.requires_grad)
        self.arriving: Arriving | None = None
        self.whole = True
        if not kept:
            self.release()

    def _parts(self, row: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each parameter's stretch of a row."""
        return zip(self.names, row[: sum(self.sizes)].split(self.sizes), strict=True)

    def stretches(self, flat: Tensor) -> Iterator[tuple[nn.Parameter, int, Tensor]]:
        """Of each parameter what this rank has, of a tensor like the shard: from which number on,
        and the numbers, in the order of memory.
        """
        begin, end = 0, dist.get_rank(self.group) * self.length  # of the parameter; of the piece
        for p in self.names:
            start, stop = (min(max(end + at - begin, 0), p.numel()) for at in (0, self.length))
            at = begin + start - end
            yield p, start, flat[at : at + stop - start] if stop > start else flat[:0]
            begin += p.numel()

    def packed_gradients(self, ranks: int) -> Tensor:
        """This rank's share of the mean over so many ranks as one row; gradients are taken away."""
        row = torch.empty(self.ranks * self.length, dtype=self.row.dtype, device=self.row.device)
        row[sum(self.sizes) :].zero_()
        for p, part in self._parts(row):
            # laid as the weights are; a parameter that was given back does not tell its strides
            place = part.as_strided(p.shape, self.slots[p].stride())
            if p.grad is None:
                place.zero_()
            else:
                check_dense(self.names[p], p.grad)
                torch.div(p.grad, ranks, out=place)
                p.grad = None
        return row

    def add(self, piece: Tensor) -> None:
        """Add a part of a gradient to the shard's."""
        self.shard.grad = piece if self.shard.grad is None else self.shard.grad.add_(piece)

    def check_home(self) -> None:
        """Refuse parameters that lie elsewhere: a step writes into the row."""
        if lost := [self.names[p] for p in self.slots if p.data_ptr() != self.slots[p].data_ptr()]:
            raise RuntimeError(
                f"the module is not what was wrapped: {', '.join(lost)} no longer in the flat "
                "buffer. Convert and move it first, then wrap it."
            )

    def take_edits(self) -> None:
        """Weights that were written into the module since the last step, as by load_state_dict,
        replace those of an fp32 shard.
        """
        if self.kept and self.shard.dtype != self.piece.dtype:
            edited = self.piece != self.shard.data.to(self.piece.dtype)
            self.shard.data[edited] = self.piece[edited].to(self.shard.dtype)

    def take(self) -> None:
        """The shard takes the weights that were written into the whole row."""
        if self.whole and not self.kept:
            self.shard.data.copy_(self.piece)

    def begin_gather(self) -> None:
        """Make room for the whole row, and ask the other ranks for their shards."""
        if self.whole or self.arriving:
            return
        self.row.untyped_storage().resize_(self.row.nbytes)
        self.arriving = self._gathering(self.shard.data.to(self.row.dtype))

    def _gathering(self, piece: Tensor) -> Arriving:
        what = f"all-gather of {self.name}"
        return self.how(self.row, piece, self.group, what=what, trace=self.trace)

    def gather(self) -> None:
        """Wait until the row is whole, and let the parameters lie in it."""
        self.begin_gather()
        if self.arriving:
            self.arriving.wait()
            for p, place in self.slots.items():
                p.data = place
        self.arriving, self.whole = None, True

    def release(self) -> None:
        """Give the row's memory back. Whoever reads a parameter now sees its shape, and NaN."""
        if self.kept:
            return
        if self.arriving:
            self.arriving.wait()
        elif not self.whole:
            return
        self.arriving, self.whole = None, False
        for p in self.names:
            p.data = torch.full((), math.nan, dtype=p.dtype, device=p.device).expand(p.shape)
        self.row.untyped_storage().resize_(0)

    def begin_scatter(self, ranks: int) -> Scattering:
        """Send the gradients that have come, for the mean over so many ranks, and drop them."""
        row = self.packed_gradients(ranks)
        what = f"reduce-scatter of {self.name}"
        return Scattering(row, self.group, what=what, trace=self.trace)

    def publish(self) -> Arriving:
        """Begin to give every rank the shard's new weights."""
        if self.shard.data.data_ptr() != self.piece.data_ptr():
            self.piece.copy_(self.shard.data)
        return self._gathering(self.piece)


def placeholders(module: nn.Module) -> None:
    """Give parameters that are on the meta device a place on the default one: their shape, and no
    memory.
    """
    if unfilled := [name for name, buffer in module.named_buffers() if buffer.is_meta]:
        raise InputError(f"module: {', '.join(unfilled)} on the meta device, expected with numbers")
    made: dict[nn.Parameter, nn.Parameter] = {}
    for part in module.modules():
        for name, p in list(part.named_parameters(recurse=False)):
            if p.is_meta and p not in made:
                nothing = torch.full((), math.nan, dtype=p.dtype, device=torch.get_default_device())
                made[p] = nn.Parameter(nothing.expand(p.shape), requires_grad=p.requires_grad)
            setattr(part, name, made.get(p, p))


def alike(names: Mapping[nn.Parameter, str]) -> Iterator[dict[nn.Parameter, str]]:
    """Parameters that can lie in one row: of one type and place, all trained or all frozen."""

    def kind(p: nn.Parameter) -> str:
        return f"{type_and_place(p)} {p.requires_grad}"

    for _, some in groupby(sorted(names, key=kind), key=kind):
        yield {p: names[p] for p in some}


def norm(shards: Iterable[FlatShard], group: ProcessGroup | None = None) -> Tensor:
    """The norm of the whole gradient, of which every rank of the group holds other shards; a shard
    that all of them hold counts once.

    Chapter: mics (eq-mics-norm)
    """
    ranks = dist.get_world_size(group)
    squares = [
        s.shard.grad.double().square().sum() * (s.ranks / ranks)
        for s in shards
        if s.shard.grad is not None
    ]
    total = torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64)
    dist.all_reduce(total, group=group)
    return total.sqrt()


def clip(shards: Iterable[FlatShard], most: float, group: ProcessGroup | None = None) -> Tensor:
    """Scale the gradient so that its norm is at most `most`, as torch's clip_grad_norm_ does."""
    held = list(shards)
    total = norm(held, group)
    factor = (most / (total + 1e-6)).clamp(max=1.0)
    for s in held:
        if s.shard.grad is not None:
            s.shard.grad.mul_(factor.to(s.shard.dtype))
    return total
