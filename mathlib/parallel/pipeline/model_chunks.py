"""A decoder cut into chunks for a pipeline: embedding, layers, final norm and head.

L layers    p v chunks of the whole model, counted from 0
A chunk's parameters have the names and the first numbers that they have in the whole model.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mathlib.checks import InputError, one_of
from mathlib.layout import stage_layers
from mathlib.model.gpt import ATTENTION, GPT, fill
from mathlib.model.modern import Modern
from mathlib.schedule.actions import Schedule
from mathlib.specs import RECOMPUTE, Model

TIED = {"tokens.weight": "tokens.weight", "head.weight": "tokens.weight"}


def whole(model: Model, attention: str = "plain", recompute: str = "none") -> GPT | Modern:
    """The decoder that is built from this shape: a GPT, or a Modern where positions are rotary."""
    one_of("attention", attention, ATTENTION)
    if model.positions == "learned":
        return GPT(model, attention, one_of("recompute", recompute, RECOMPUTE))
    one_of("attention of a Modern", attention, ["plain"])
    one_of("recompute of a Modern", recompute, ["none", "full"])
    return Modern(model)


class Chunk(nn.Module):
    """Some layers of a decoder in a row; the first chunk embeds tokens, the last one has norm
    and head.

    `ties` names each parameter of this chunk that some other chunk may hold a copy of; `places`
    says where tokens stand in their sequence, if not first.
    """

    def __init__(
        self,
        model: Model,
        layers: Sequence[int],
        attention: str = "plain",
        recompute: str = "none",
        seed: int = 0,
    ):
        super().__init__()
        device = torch.get_default_device()
        with torch.device("meta"):
            source = whole(model, attention, recompute)
        self.model, self.recompute = model, recompute
        self.first, self.last = layers[0] == 0, layers[-1] == model.layers - 1
        self.places: Tensor | None = None
        if self.first:
            self.tokens = source.tokens
            self.positions = source.positions if isinstance(source, GPT) else None
        self.blocks = nn.ModuleDict({str(layer): source.blocks[layer] for layer in layers})
        if self.last:
            self.norm, self.head = source.norm, source.head
            self.head.weight = nn.Parameter(source.head.weight.detach())  # no longer the table
        self.ties = TIED if model.tied else {}
        self.to_empty(device=device)
        for name, parameter in self.named_parameters():
            if not parameter.is_meta:
                fill(self.ties.get(name, name), parameter, seed)

    def forward(self, x: Tensor) -> Tensor:  # B S or B S h -> B S h or B S V
        if self.first:
            x = self.embed(x)
        for block in self.blocks.values():
            x = checkpoint(block, x, use_reentrant=False) if self.recompute == "full" else block(x)
        return self.head(self.norm(x)) if self.last else x

    def embed(self, tokens: Tensor) -> Tensor:  # B S -> B S h
        x = self.tokens(tokens)
        if self.positions is None:
            return x
        rows = slice(tokens.shape[1]) if self.places is None else self.places
        return x + self.positions.weight[rows]


def cut(model: Model, chunks: int, layers: Sequence[Sequence[int]] | None = None) -> list:
    """The layers of each chunk: equally many, or as `layers` says."""
    if layers is None:
        return stage_layers(model.layers, pipeline=chunks)
    found = [list(part) for part in layers]
    if len(found) != chunks:
        raise InputError(f"layers = {found}: expected a list for each of {chunks} chunks")
    if not all(found):
        raise InputError(
            f"layers = {found}: chunk {found.index([])} has no layer; expected one at least"
        )
    if [layer for part in found for layer in part] != list(range(model.layers)):
        raise InputError(f"layers = {found}: expected 0 to {model.layers - 1}, in their order")
    return found


def build(
    model: Model,
    schedule: Schedule,
    stage: int,
    *,
    layers: Sequence[Sequence[int]] | None = None,
    attention: str = "plain",
    recompute: str = "none",
    seed: int = 0,
) -> dict[int, Chunk]:
    """The chunks that a stage holds, by their number in the whole model.

    Where a stage has both ends of a model whose embedding is tied, they share one matrix.
    """
    one_of("stage", stage, range(schedule.stages))
    parts = cut(model, schedule.model_chunks, layers)
    chunks = {
        c: Chunk(model, parts[c], attention, recompute, seed) for c in schedule.chunks_of(stage)
    }
    ends = [chunks.get(0), chunks.get(schedule.model_chunks - 1)]
    if model.tied and ends[0] and ends[1]:
        ends[1].head.weight = ends[0].tokens.weight
    return chunks


def named(chunks: Mapping[int, nn.Module]) -> dict[str, nn.Parameter]:
    """All parameters of these chunks by their names in the whole model, a tied one once."""
    found: dict[str, nn.Parameter] = {}
    for chunk in chunks.values():
        ties = getattr(chunk, "ties", {})
        found |= {ties.get(name, name): p for name, p in chunk.named_parameters()}
    return found
