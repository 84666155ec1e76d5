"""A rank's part of a decoder: its pipeline stage's chunks, cut along every other axis.

Of a chunk, experts are shared out first, then what is left is cut over the tensor ranks, then
attention learns to look at the keys of the context ranks.  All that happens to shapes; numbers come
last, by the parameters' names: so every layout starts from the same model, and no rank ever has
more than its part and one whole matrix.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mathlib.checks import InputError
from mathlib.layout import Layout, expert_degree
from mathlib.model import modern
from mathlib.parallel.experts.expert_layer import ExpertLayer, Groups
from mathlib.parallel.experts.router import Routing
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.model_chunks import Chunk
from mathlib.parallel.sequences.context import ContextParallel
from mathlib.parallel.tensor.split_tensors import WHOLE, Cut
from mathlib.parallel.tensor.tensor_parallel import EXPERTS, TensorParallel
from mathlib.parallel.together.grid import Grid
from mathlib.parallel.together.places import Place
from mathlib.schedule.actions import Schedule
from mathlib.specs import Model

ROUTING = Routing(balance=0.0)  # as a Modern's own router, without an auxiliary loss


@dataclass
class Stage:
    """What a rank trains."""

    chunks: dict[int, nn.Module] = field(default_factory=dict)  # as they are called
    inside: dict[int, Chunk] = field(default_factory=dict)  # with the names of the whole model
    places: dict[nn.Parameter, Place] = field(default_factory=dict)
    contexts: list[ContextParallel] = field(default_factory=list)

    def own(self, chunk: int, expert: bool) -> dict[str, nn.Parameter]:
        """A chunk's parameters by the whole model's names, of experts or the others; one that two
        chunks share is the first's.
        """
        before = {p for c, one in self.inside.items() if c < chunk for p in one.parameters()}
        mine = (p for p in self.inside[chunk].parameters() if p not in before)
        return {self.places[p].name: p for p in mine if self.places[p].expert == expert}


def build(
    model: Model,
    layout: Layout,
    schedule: Schedule,
    grid: Grid,
    *,
    layers: Sequence[Sequence[int]] | None = None,
    attention: str = "plain",
    order: str = "zigzag",
    dtype: torch.dtype | None = None,
    seed: int = 0,
) -> Stage:
    """This rank's chunks of a model, cut and filled."""
    check(model, layout)
    stage, parts = Stage(), model_chunks.cut(model, schedule.model_chunks, layers)
    for c in schedule.chunks_of(grid.at["pp"]):
        with torch.device("meta"):
            chunk = Chunk(model, parts[c], attention, layout.recompute).to(dtype)
        if model.tied and chunk.first and chunk.last:
            chunk.head.weight = chunk.tokens.weight
        share_experts(chunk, grid)
        called: Any = chunk
        if layout.tensor > 1:
            called = TensorParallel(
                chunk, grid.groups["tensor"], sequence_parallel=layout.sequence_parallel, seed=seed
            )
        if layout.context > 1:
            stage.contexts.append(ContextParallel(chunk, grid.groups["context"], order=order))
        stage.chunks[c], stage.inside[c] = called, chunk
        stage.places |= _fill(chunk, called, grid, seed)
    first, last = (stage.inside.get(c) for c in (0, schedule.model_chunks - 1))
    if model.tied and first and last and first is not last:
        stage.places = {p: at for p, at in stage.places.items() if p is not last.head.weight}
        last.head.weight = first.tokens.weight  # both ends on one rank share a matrix
    return stage


def check(model: Model, layout: Layout) -> None:
    """Refuse experts that do not go with the other axes."""
    expert_degree(model, layout)
    if model.experts and layout.tensor > 1 and not layout.sequence_parallel:
        raise InputError(
            f"tensor = {layout.tensor} without sequence_parallel: each tensor rank would send all "
            "tokens to the experts; expected sequence_parallel = True, so that it sends its own"
        )


def share_experts(chunk: Chunk, grid: Grid) -> None:
    """Leave this rank its experts, or parts of them, of every layer that has some."""
    of = grid.groups
    among = Groups(of["expert"], of["expert tensor"], sharing=None, copies=of["expert data"])
    for block in chunk.blocks.children():
        if isinstance(block.mlp, modern.Experts):
            block.mlp = ExpertLayer(block.mlp, among, ROUTING, 0.0, nullcontext)


def _fill(chunk: Chunk, called: Any, grid: Grid, seed: int) -> dict[nn.Parameter, Place]:
    """The place of each parameter, which gets numbers if it has none."""
    found, made = dict[nn.Parameter, Place](), dict[nn.Parameter, nn.Parameter]()
    for path, p in list(chunk.named_parameters(remove_duplicate=False)):
        owner, _, kind = path.rpartition(".")
        if p not in made:
            place = _place(path, p, chunk, called, grid)
            made[p] = place.filled(p, seed) if p.is_meta else p
            found[made[p]] = place
        chunk.get_submodule(owner).register_parameter(kind, made[p])
    for path, buffer in list(chunk.named_buffers()):
        owner, _, kind = path.rpartition(".")
        zeros = torch.zeros(buffer.shape, dtype=buffer.dtype)
        chunk.get_submodule(owner).register_buffer(kind, zeros)
    return found


def _place(path: str, p: Tensor, chunk: Chunk, called: Any, grid: Grid) -> Place:
    if EXPERTS in path:
        layer, _, rest = path.partition(EXPERTS)
        number, _, matrix = rest.partition(".")
        first, t = int(chunk.get_submodule(layer).first), grid.size("expert tensor")  # type: ignore[arg-type]
        dim = 1 if matrix.startswith("down") else 0
        shape = tuple(n * t if i == dim else n for i, n in enumerate(p.shape))
        name = f"{layer}{EXPERTS}{first + int(number)}.{matrix}"
        return Place(name, shape, Cut(dim), grid.place("expert tensor"), t, expert=True)
    name = chunk.ties.get(path, path)
    if isinstance(called, TensorParallel):
        cut, shape = called.cuts[path], tuple(called.sizes[path])
        return Place(name, shape, cut, called.rank, called.ranks)
    return Place(name, tuple(p.shape), WHOLE, 0, 1)
