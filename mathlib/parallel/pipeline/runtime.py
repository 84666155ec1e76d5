"""Pipeline parallel training: one runtime that executes the action lists of any schedule.

p stages · m micro_batches · b sequences of a micro-batch · s tokens · h width
A rank runs its stage's actions one after the other.  It receives b s h activations before F and as
many gradients before B or I, unless both chunks are its own, and sends what it made on at once.
A micro-batch's loss is the sum over its tokens that count, divided by their number in the whole
batch: so unequal micro-batches, masked tokens and replicas are weighed right, and gradients add up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from mathlib.checks import InputError, listed, one_of
from mathlib.meters.trace import Trace
from mathlib.model.oracle import NOT_COUNTED
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.clocks import VirtualClock, at_least
from mathlib.parallel.pipeline.copies import Copies
from mathlib.parallel.pipeline.mail import Mail
from mathlib.parallel.pipeline.split_backward import LaterWeights
from mathlib.parallel.pipeline.weight_versions import Versions
from mathlib.parallel.zero.flat_shards import SILENT
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.schedule.actions import Action, Schedule
from mathlib.schedule.check import validate
from mathlib.schedule.times import Times
from mathlib.schedule.weights import versions

Batch = Tensor | Sequence[Tensor]  # sequences, to be cut; or micro-batches


class Pipeline:
    """Train chunks in place: `run` as often as you like, then `step`; with weights that change
    under way, `run` does the steps.

    chunks: those of this rank, by their number; every rank makes a Pipeline, and passes the batch
    of its replica.  width: h.  ranks: a row for each replica, in it the rank of each stage.
    posted: receives that are open at a time.  clock: what actions take by the virtual clock; pace:
    what they take at least, in seconds.
    """

    def __init__(
        self,
        chunks: Mapping[int, nn.Module],
        schedule: Schedule,
        make: MakeOptimizer,
        *,
        width: int,
        ranks: Sequence[Sequence[int]] | None = None,
        posted: int = 1,
        clock: Times | None = None,
        pace: Times | None = None,
        trace: Trace | None = None,
    ):
        validate(schedule)
        self.chunks, self.schedule, self.width = dict(chunks), schedule, width
        self.trace = trace or SILENT
        self.rows = _rows(ranks, schedule.stages)
        self.replica, self.stage = _place(self.rows)
        self._check_chunks()
        self.clock = VirtualClock(clock, schedule, self.stage) if clock else None
        self.pace = (pace or Times(forward=0, backward=0)).of(schedule)[self.stage]
        self.mail = Mail(
            schedule,
            self.stage,
            self.rows[self.replica],
            posted=posted,
            clock=self.clock,
            trace=self.trace,
        )
        self.copies = Copies(self.chunks)
        self.replicas = _column(self.rows, self.stage)
        self.actions = schedule.actions[self.stage]
        self.optimizer = make(list(model_chunks.named(self.chunks).values()))  # type: ignore[arg-type]
        self.later = LaterWeights()
        if any(action.kind == "I" for action in self.actions):
            for chunk in self.chunks.values():
                self.later.watch(chunk)
        self.changing = None if schedule.weights == "flush" else self._only_chunk()
        self.versions: Versions | None = None
        self.under_way: dict[tuple[int, int], tuple[Tensor, Any]] = {}
        self.most_under_way = 0  # forwards without their backward, at once

    def _check_chunks(self) -> None:
        wanted = self.schedule.chunks_of(self.stage)
        if sorted(self.chunks) != wanted:
            raise InputError(
                f"chunks = {sorted(self.chunks)}: expected those of stage {self.stage}, {wanted}"
            )
        for c, chunk in self.chunks.items():
            if not list(chunk.parameters()):
                raise InputError(f"chunks[{c}]: a stage without layers has nothing to train")

    def _only_chunk(self) -> nn.Module:
        """The chunk of a stage whose weights change under way."""
        if len(self.chunks) > 1:
            raise InputError(
                f"schedule with weights = {self.schedule.weights!r}: expected one chunk a stage"
            )
        if shared := self.copies.within(self.rows[0]):
            raise InputError(
                f"schedule with weights = {self.schedule.weights!r}: stages change theirs at "
                f"different times, and two of them hold {shared[0]}; expected no tied parameter"
            )
        return next(iter(self.chunks.values()))

    def run(self, tokens: Batch, targets: Batch, counted: int | None = None) -> dict[int, float]:
        """All actions of this rank; returns, on the last chunk's rank, what each micro-batch adds
        to the mean loss.

        counted: tokens that count in all runs until the next step and on all replicas, where this
        run is one of several.
        """
        self._take_batch(tokens, targets, counted)
        if self.changing:
            self.versions = Versions(self.changing, versions(self.schedule, stage=self.stage))
        self.mail.open(self._shape, next(iter(self._parameters())))
        if self.clock:
            self.clock.start()
        for action in self.actions:
            self._do(action)
        self.mail.close()
        return self.losses

    def step(self) -> None:
        """Add up the gradients of copies and update the weights."""
        if self.changing:
            raise InputError(
                f"schedule with weights = {self.schedule.weights!r}: run has done the steps"
            )
        self.copies.add_up()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self) -> dict[str, Tensor]:
        """This rank's parameters by their names in the whole model."""
        return {name: p.detach() for name, p in model_chunks.named(self.chunks).items()}

    def gradients(self) -> dict[str, Tensor | None]:
        """What `run` has left so far, this rank's share of it, by the same names."""
        return {name: p.grad for name, p in model_chunks.named(self.chunks).items()}

    def _parameters(self) -> list[nn.Parameter]:
        return [p for chunk in self.chunks.values() for p in chunk.parameters()]

    def _take_batch(self, tokens: Batch, targets: Batch, counted: int | None) -> None:
        m = self.schedule.micro_batches
        self.tokens, self.targets = _cut("tokens", tokens, m), _cut("targets", targets, m)
        for i, (one, other) in enumerate(zip(self.tokens, self.targets, strict=True)):
            if one.shape != other.shape:
                raise InputError(
                    f"targets of micro-batch {i} have shape {tuple(other.shape)}: expected that "
                    f"of its tokens, {tuple(one.shape)}"
                )
        each = self.schedule.accumulate
        found = [sum(map(_counting, self.targets[i : i + each])) for i in range(0, m, each)]
        whole = torch.tensor(found if counted is None else [counted] * len(found))
        if counted is None and len(self.rows) > 1:
            dist.all_reduce(whole, group=self.replicas)
        self.counted, self.losses, self.backwards = whole.tolist(), dict[int, float](), 0

    def _shape(self, i: int) -> tuple[int, ...]:
        """Of what passes from chunk to chunk: b s h."""
        return (*self.tokens[i].shape, self.width)

    def _do(self, action: Action) -> None:
        """One action: wait for its message, compute, send."""
        kind, _, c = action
        given, arrived = self.mail.take(action)
        if self.clock:
            self.clock.run(action, arrived)
        with self.trace.span(str(action)), at_least(self.pace[kind][c]):
            made = DO[one_of("action.kind", kind, DO)](self, action, given)
        self.mail.send(action, made)

    def _forward(self, action: Action, x: Tensor | None) -> Tensor | None:
        _, i, c = action
        x = self.tokens[i] if x is None else x.requires_grad_()
        y = self.versions.forward(i, x) if self.versions else self.chunks[c](x)
        last = c == self.schedule.model_chunks - 1
        if last:
            y = self._loss(i, y)
        self.under_way[i, c] = x, get_gradient_edge(y)  # without y itself, which may go
        self.most_under_way = max(self.most_under_way, len(self.under_way))
        return None if last else y.detach()

    def _loss(self, i: int, scores: Tensor) -> Tensor:
        """This micro-batch's part of the mean over all tokens that count."""
        summed = F.cross_entropy(
            scores.flatten(0, 1),
            self.targets[i].flatten(),
            ignore_index=NOT_COUNTED,
            reduction="sum",
        )
        loss = summed / max(1, self.counted[i // self.schedule.accumulate])
        self.losses[i] = loss.item()
        return loss

    def _backward(self, action: Action, dy: Tensor | None) -> Tensor | None:
        _, i, c = action
        x, edge = self.under_way.pop((i, c))
        if dy is None:
            dy = torch.ones((), dtype=self.mail.like.dtype, device=self.mail.like.device)
        torch.autograd.backward(edge, dy)
        if self.versions:
            self._update_under_way(i)
        return x.grad

    def _backward_input(self, action: Action, dy: Tensor | None) -> Tensor | None:
        with self.later.put_off(action[1:]):
            return self._backward(action, dy)

    def _backward_weights(self, action: Action, _: Tensor | None) -> None:
        self.later.form(action[1:])

    def _update_under_way(self, i: int) -> None:
        """After the last backward of an update: the weights change while others are under way."""
        assert self.versions
        self.versions.backward_done(i)
        self.backwards += 1
        if self.backwards % self.schedule.accumulate == 0:
            self.copies.add_up()
            self.versions.update(self.optimizer)


DO = {
    "F": Pipeline._forward,
    "B": Pipeline._backward,
    "I": Pipeline._backward_input,
    "W": Pipeline._backward_weights,
}


def _rows(ranks: Sequence[Sequence[int]] | None, stages: int) -> list[list[int]]:
    """The ranks of each replica's stages, every rank of the world once."""
    world = dist.get_world_size()
    rows = [list(range(world))] if ranks is None else [listed("ranks", row) for row in ranks]
    if sorted(rank for row in rows for rank in row) != list(range(world)) or any(
        len(row) != stages for row in rows
    ):
        raise InputError(
            f"ranks = {rows}: expected rows of {stages} stages, in which each of the {world} ranks "
            "stands once"
        )
    return rows


def _place(rows: Sequence[Sequence[int]]) -> tuple[int, int]:
    """(replica, stage) of this process."""
    mine = dist.get_rank()
    return next((r, row.index(mine)) for r, row in enumerate(rows) if mine in row)


def _column(rows: Sequence[Sequence[int]], stage: int) -> dist.ProcessGroup | None:
    """The group of those who hold this stage in some replica; every rank must call this."""
    groups = [dist.new_group(list(column)) for column in zip(*rows, strict=True)]
    return groups[stage]


def _cut(name: str, batch: Batch, m: int) -> Sequence[Tensor]:
    """m micro-batches whose numbers of sequences differ by one at most, or as they were given."""
    if isinstance(batch, Tensor):
        if len(batch) < m:
            raise InputError(
                f"{name} of {len(batch)} sequences: expected micro_batches = {m} or more"
            )
        return batch.tensor_split(m)
    if len(batch) != m:
        raise InputError(f"{name} = {len(batch)} micro-batches: expected micro_batches = {m}")
    return batch


def _counting(targets: Tensor) -> int:
    return int((targets != NOT_COUNTED).sum())
