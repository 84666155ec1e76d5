"""The words that every schedule is written in: an action, and a schedule of actions.

p stages · m micro_batches · v chunks a stage

The model is cut into chunks 0, 1, 2, ... in the order of its layers; a placement says which stage
holds each of them.  The kinds of an action, by the letters of torch.distributed.pipelining:

F forward of a micro-batch through a chunk
B whole backward: the gradients of the chunk's input and of its weights, in one go
I the gradient of the input only: the stage before can go on (zero-bubble papers call this one "B")
W the gradient of the weights, any time after I
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mathlib.checks import InputError, keep_whole, listed, one_of, whole

KINDS = ("F", "B", "I", "W")
# When weights change: once, at the end; after every backward, each micro-batch going back through
# the weights it came with; or after every `accumulate` micro-batches, with two versions.
WEIGHTS = ("flush", "stash", "double")


class Action(NamedTuple):
    """One thing that a stage does without a pause."""

    kind: str  # F, B, I or W
    micro_batch: int  # from 0
    chunk: int  # of the whole model, from 0

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch} of chunk {self.chunk}"


@dataclass(frozen=True)
class Schedule:
    """The actions of every stage, in their order, and where the chunks are.

    Nothing is checked here but what the schedule needs to speak of itself: `check.validate` says
    whether it can be executed.
    """

    name: str
    micro_batches: int  # m; those of all steps together, where weights change in between
    placements: Sequence[Sequence[int]]  # stage of each chunk, for each direction
    actions: Sequence[Sequence[Action]]  # of each stage
    weights: str = "flush"  # one of WEIGHTS
    accumulate: int = 0  # micro-batches of an update; 0: all of them

    def __post_init__(self) -> None:
        keep_whole(self, 1, "micro_batches")
        for name in ("placements", "actions"):
            rows = tuple(tuple(row) for row in listed(name, getattr(self, name)))
            object.__setattr__(self, name, rows)
        sizes = {len(placement) for placement in self.placements}
        if len(sizes) != 1 or not all(sizes) or self.micro_batches % len(self.placements):
            raise InputError(
                f"placements = {self.placements!r}: expected one for each direction, all of as "
                f"many chunks, and as many micro-batches for each (there are {self.micro_batches})"
            )
        for stage in {stage for placement in self.placements for stage in placement}:
            one_of("placements", stage, range(len(self.actions)))
        one_of("weights", self.weights, WEIGHTS)
        each = whole("accumulate", self.accumulate, least=0) or self.micro_batches
        object.__setattr__(self, "accumulate", each)

    @property
    def stages(self) -> int:
        """p."""
        return len(self.actions)

    @property
    def model_chunks(self) -> int:
        """Chunks into which the model is cut, p v; with two directions every chunk exists twice."""
        return len(self.placements[0])

    def direction(self, micro_batch: int) -> int:
        """Which placement a micro-batch follows: with two of them, the first half the first."""
        return micro_batch * len(self.placements) // self.micro_batches

    def stage_of(self, micro_batch: int, chunk: int) -> int:
        """The stage that does this chunk for this micro-batch."""
        return self.placements[self.direction(micro_batch)][chunk]

    def chunks_of(self, stage: int) -> list[int]:
        """The chunks that a stage holds; v of them."""
        every = {c for row in self.placements for c, place in enumerate(row) if place == stage}
        return sorted(every)

    def layers_of(self, chunk: int, layers: int) -> range:
        """The layers of a chunk when L are distributed evenly, L / (p v) each; they must divide."""
        if whole("chunk", chunk, least=0) >= self.model_chunks:
            raise InputError(f"chunk = {chunk}: expected 0 to {self.model_chunks - 1}")
        size = whole("layers", layers) // self.model_chunks
        if layers % self.model_chunks:
            raise InputError(
                f"layers = {layers}: expected a multiple of the model's {self.model_chunks} chunks"
            )
        return range(chunk * size, (chunk + 1) * size)

    def receives_from(self, action: Action) -> int | None:
        """The stage from which an action's input comes; None where it is there already."""
        step = {"F": -1, "W": 0}.get(action.kind, 1)
        return self._neighbour(action, step)

    def sends_to(self, action: Action) -> int | None:
        """The stage that an action's output goes to; None where it stays."""
        step = {"F": 1, "W": 0}.get(action.kind, -1)
        return self._neighbour(action, step)

    def _neighbour(self, action: Action, step: int) -> int | None:
        """The stage of the chunk `step` further, if there is one and it is a different stage."""
        chunk, placement = action.chunk + step, self.placements[self.direction(action.micro_batch)]
        if not 0 <= chunk < len(placement) or placement[chunk] == placement[action.chunk]:
            return None
        return placement[chunk]


def looped(*, stages: int, chunks: int = 1) -> tuple[int, ...]:
    """The stage of each chunk when they are distributed in rounds: chunk c on stage c mod p.

    With v = 1 that is the plain pipeline; with 4 stages and 2 chunks, stage 0 holds chunks 0 and 4
    (Narayanan et al. 2021, section 2.2).

    Chapter: pipeline
    """
    p, v = whole("stages", stages), whole("chunks", chunks)
    return tuple(range(p)) * v


def v_shaped(*, stages: int) -> tuple[int, ...]:
    """The stage of each chunk when two a stage run there and back: 0, 1, ..., p-1, p-1, ..., 1, 0.

    The first stage holds both ends of the model (Qi et al. 2024).

    Chapter: schedules
    """
    p = whole("stages", stages)
    return (*range(p), *reversed(range(p)))
