"""The small GPT cut into chunks for a pipeline: embedding, layers, final norm and head.

L layers    p v chunks of the whole model, counted from 0
A chunk's parameters have the names and the first numbers that they have in the whole model.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mathlib.checks import InputError, one_of
from mathlib.layout import stage_layers
from mathlib.model.gpt import ATTENTION, Block, check_buildable, fill
from mathlib.schedule.actions import Schedule
from mathlib.specs import RECOMPUTE, Model

TIED = {"tokens.weight": "tokens.weight", "head.weight": "tokens.weight"}


class Chunk(nn.Module):
    """Some layers of the GPT in a row; the first chunk embeds tokens, the last one has norm
    and head.

    `ties` names each parameter of this chunk that some other chunk may hold a copy of.
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
        check_buildable(model)
        one_of("attention", attention, ATTENTION)
        self.recompute = one_of("recompute", recompute, RECOMPUTE)
        self.first, self.last = layers[0] == 0, layers[-1] == model.layers - 1
        if self.first:
            self.tokens = nn.Embedding(model.padded_vocab, model.width)
            self.positions = nn.Embedding(model.position_rows, model.width)
        self.blocks = nn.ModuleDict(
            {str(layer): Block(model, attention, recompute) for layer in layers}
        )
        if self.last:
            self.norm = nn.LayerNorm(model.width)
            self.head = nn.Linear(model.width, model.padded_vocab, bias=model.head_bias)
        self.ties = TIED if model.tied else {}
        for name, parameter in self.named_parameters():
            fill(self.ties.get(name, name), parameter, seed)

    def forward(self, x: Tensor) -> Tensor:  # B S or B S h -> B S h or B S V
        if self.first:
            x = self.tokens(x) + self.positions.weight[: x.shape[1]]
        for block in self.blocks.values():
            x = checkpoint(block, x, use_reentrant=False) if self.recompute == "full" else block(x)
        return self.head(self.norm(x)) if self.last else x


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
