"""The engine of pipelines: it executes the action lists of any schedule, and leaves gradients.

p stages · m micro_batches · b sequences of a micro-batch · s tokens · h width
A rank runs its stage's actions one after the other.  It receives b s h activations before F and as
many gradients before B or I, unless both chunks are its own, and sends what it made on at once.
A micro-batch's loss is the sum over its tokens that count, divided by their number in the whole
batch: so unequal micro-batches, masked tokens and replicas are weighed right, and gradients add up.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from mathlib.checks import InputError, listed, one_of
from mathlib.meters.trace import Trace
from mathlib.model.oracle import NOT_COUNTED
from mathlib.parallel.pipeline.clocks import VirtualClock, at_least
from mathlib.parallel.pipeline.mail import Mail
from mathlib.parallel.pipeline.split_backward import LaterWeights
from mathlib.parallel.zero.flat_shards import SILENT
from mathlib.schedule.actions import Action, Schedule
from mathlib.schedule.check import validate
from mathlib.schedule.times import Times

Batch = Tensor | Sequence[Tensor]  # sequences, to be cut; or micro-batches


def summed_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Nats of all tokens that count."""
    return F.cross_entropy(
        scores.flatten(0, 1), targets.flatten(), ignore_index=NOT_COUNTED, reduction="sum"
    )


class Engine:
    """Executes a schedule on chunks: `run` as often as you like; their gradients add up.

    chunks: those of this rank, by their number; every rank makes an Engine, and passes the batch
    of its replica.  width: h.  ranks: a row for each replica, in it the rank of each stage.
    posted: receives that are open at a time.  clock: what actions take by the virtual clock; pace:
    what they take at least, in seconds.  loss: of what the last chunk gives, summed over tokens.
    sharing: ranks of which each sends only its own part of the tokens.
    """

    def __init__(
        self,
        chunks: Mapping[int, nn.Module],
        schedule: Schedule,
        *,
        width: int,
        ranks: Sequence[Sequence[int]] | None = None,
        posted: int = 1,
        clock: Times | None = None,
        pace: Times | None = None,
        trace: Trace | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] = summed_loss,
        sharing: int = 1,
    ):
        validate(schedule)
        self.chunks, self.schedule, self.width = dict(chunks), schedule, width
        self.loss_of, self.sharing, self.trace = loss, sharing, trace or SILENT
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
        self.actions = schedule.actions[self.stage]
        self.later = LaterWeights()
        if any(action.kind == "I" for action in self.actions):
            for chunk in self.chunks.values():
                self.later.watch(chunk)
        self.under_way: dict[tuple[int, int], tuple[Tensor, torch.autograd.graph.GradientEdge]] = {}
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

    def run(self, tokens: Batch, targets: Batch, counted: int | None = None) -> dict[int, float]:
        """All actions of this rank; returns, on the last chunk's rank, what each micro-batch adds
        to the mean loss.

        counted: tokens that count in all runs until the next step and on all replicas; those of
        this run unless said.
        """
        self._take_batch(tokens, targets)
        self.counted, self.losses = self._count(counted), dict[int, float]()
        self.mail.open(self._shape, next(iter(self._parameters())))
        if self.clock:
            self.clock.start()
        for action in self.actions:
            self._do(action)
        self.mail.close()
        return self.losses

    def _parameters(self) -> list[nn.Parameter]:
        return [p for chunk in self.chunks.values() for p in chunk.parameters()]

    def _take_batch(self, tokens: Batch, targets: Batch) -> None:
        m = self.schedule.micro_batches
        self.tokens, self.targets = _cut("tokens", tokens, m), _cut("targets", targets, m)
        for i, (one, other) in enumerate(zip(self.tokens, self.targets, strict=True)):
            if one.shape != other.shape:
                raise InputError(
                    f"targets of micro-batch {i} have shape {tuple(other.shape)}: expected that "
                    f"of its tokens, {tuple(one.shape)}"
                )

    def _count(self, counted: int | None) -> list[int]:
        """Tokens that count, of each update."""
        m, each = self.schedule.micro_batches, self.schedule.accumulate
        found = [sum(map(_counting, self.targets[i : i + each])) for i in range(0, m, each)]
        return found if counted is None else [counted] * len(found)

    def _shape(self, i: int, c: int) -> tuple[int, ...]:
        """Of what passes between chunk c and the one before: b s h."""
        b, s = self.tokens[i].shape
        return b, s // self.sharing, self.width

    def _do(self, action: Action) -> None:
        """One action: wait for its message, compute, send."""
        kind, _, c = action
        given, arrived = self.mail.take(action)
        if self.clock:
            self.clock.run(action, arrived)
        with self.trace.span(str(action)), at_least(self.pace[kind][c]):
            made = getattr(self, DO[one_of("action.kind", kind, DO)])(action, given)
        self.mail.send(action, made)

    def _forward(self, action: Action, x: Tensor | None) -> Tensor | None:
        _, i, c = action
        x = self.tokens[i] if x is None else x.requires_grad_()
        y = self._compute(i, c, x)
        last = c == self.schedule.model_chunks - 1
        if last:
            y = self._loss(i, y)
        self.under_way[i, c] = x, get_gradient_edge(y)  # without y itself, which may go
        self.most_under_way = max(self.most_under_way, len(self.under_way))
        return None if last else y.detach()

    def _compute(self, i: int, c: int, x: Tensor) -> Tensor:
        """A micro-batch through a chunk."""
        return self.chunks[c](x)

    def _loss(self, i: int, scores: Tensor) -> Tensor:
        """This micro-batch's part of the mean over all tokens that count."""
        summed = self.loss_of(scores, self.targets[i])
        loss = summed / max(1, self.counted[i // self.schedule.accumulate])
        self.losses[i] = loss.item()
        return loss

    def _backward(self, action: Action, dy: Tensor | None) -> Tensor | None:
        _, i, c = action
        x, edge = self.under_way.pop((i, c))
        if dy is None:
            dy = torch.ones((), dtype=self.mail.like.dtype, device=self.mail.like.device)
        torch.autograd.backward(edge, dy)
        return x.grad

    def _backward_input(self, action: Action, dy: Tensor | None) -> Tensor | None:
        with self.later.put_off(action[1:]):
            return self._backward(action, dy)

    def _backward_weights(self, action: Action, _: Tensor | None) -> None:
        self.later.form(action[1:])


DO = {"F": "_forward", "B": "_backward", "I": "_backward_input", "W": "_backward_weights"}


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
