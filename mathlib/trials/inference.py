"""Small models that write: what a cache computes, changes and holds, alone and in blocks."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mathlib import specs
from mathlib.memory import inference
from mathlib.meters.flop import FlopMeter
from mathlib.model import data, decoding, gpt, modern, paging
from mathlib.specs import Model

VOCAB = len(data.vocabulary())
TOY = gpt.small(layers=2, width=64, context=64, vocab=VOCAB)
GROUPED = specs.find_model("llama3-8b").but(
    **{"name": "grouped", "layers": 3, "width": 48, "heads": 4, "kv_heads": 2, "head_dim": 16},
    **{"ffn_width": 128, "vocab": VOCAB, "padded_vocab": VOCAB, "context": 64},
    attention="standard",
)
LATENT = specs.Latent(kv_rank=12, rope_dim=8, nope_dim=16, value_dim=16, query_rank=20)
KINDS = {
    "each head its own": TOY,
    "2 queries share": GROUPED,
    "window of 6": GROUPED.but(name="window", window=specs.Window(6)),
    "latent": GROUPED.but(name="latent", kv_heads=4, latent=LATENT),
}
TEXT = data.batch(2, 24)[0]  # two sequences
PIECES = [9, 1, 1, 8, 1, 3, 1]  # a prompt, and what follows it


def build(shape: Model) -> decoding.Transformer:
    """The book's GPT or its modern model, as the shape asks."""
    return (gpt.GPT if shape.positions == "learned" else modern.Modern)(shape).eval()


def strong(shape: Model) -> decoding.Transformer:
    """The same in 64 bits, with weights so large that every token matters."""
    model = build(shape).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(8 if weight.dim() > 1 else 1)
    return model


def off(shape: Model, fault: str = "") -> float:
    """How far the last logits are from those of one pass, at most: the text comes in pieces.

    Before the last token the cache is emptied ("emptied"), or all forget how many tokens it has
    ("position 0").
    """
    model = strong(shape)
    decoder = decoding.Decoder(model)
    for piece in TEXT.split(PIECES, 1):
        if fault and decoder.past == sum(PIECES[:-1]):
            for layer in decoder.layers:
                if fault == "emptied":
                    layer.kept = [decoding.Kept(one.width) for one in layer.kept]
                else:
                    layer.past = decoder.past = 0
        logits = decoder(piece)
    with torch.no_grad():
        return (logits - model(TEXT)[:, -logits.shape[1] :]).abs().max().item()


def spent(tokens: int = 48) -> tuple[float, bool]:
    """FLOP of writing without a cache over those with one; whether both write the same."""
    model, prompt = gpt.GPT(TOY).eval(), data.encode("Shall I ")[None]
    with FlopMeter(model) as cached:
        text = decoding.generate(model, prompt, tokens)
    written = prompt
    with FlopMeter(model) as again, torch.no_grad():
        for _ in range(tokens):
            written = torch.cat([written, model(written)[:, -1:].argmax(-1)], 1)
    ratio = sum(again.parts.values()) / sum(cached.parts.values())
    return ratio, torch.equal(text, written)


def bytes_kept(shape: Model) -> tuple[float, int]:
    """Bytes of the cache after the text, in fp32: by the formula, and of the storage held."""
    decoder = decoding.Decoder(build(shape))
    decoder(TEXT)
    return predicted(shape), decoder.nbytes


def predicted(shape: Model, tokens: int = 24, sequences: int = 2, e: int = 4) -> float:
    """Bytes of a cache of the shape by the formula."""
    sizes = {"tokens": tokens, "sequences": sequences, "bytes_per_element": e}
    return inference.kv_cache(shape, **sizes).total  # type: ignore[arg-type]


class Served(NamedTuple):
    lengths: list[int]  # tokens of each sequence before one leaves
    used: int  # rows of the store that hold a token
    reserved: int  # rows of all blocks that somebody has
    apart: float  # the logits, at most, from those of the model on each text alone

    def rooms(self, reserved: int = 64) -> dict[str, int]:
        """Rows that are taken if each has room for the longest, and with blocks of some sizes."""
        found = {f"room for {reserved} tokens each": reserved * len(self.lengths)}
        for z in (32, 8, 1):
            rows = inference.paged(tokens=self.lengths, block=z)
            found[f"blocks of {z}"] = int(rows.total)
        return found


@torch.no_grad()
def served(block: int = 8, steps: int = 10) -> Served:
    """Six sequences of different lengths take steps together; one leaves, and another comes."""
    model, apart = gpt.GPT(TOY).eval(), [0.0]
    server = paging.Server(model, blocks=48, block=block)
    texts = {f"reader {i}": data.batch(1, 60, i)[0][0].tolist() for i in range(7)}
    length = dict(zip(texts, (5, 33, 12, 21, 8, 17), strict=False))

    def feed(new: dict[str, list[int]]) -> None:
        for name, logits in server.feed(new).items():
            alone = _last(model, texts[name][: length[name]])
            apart.append((logits - alone).abs().max().item())

    for name, begin in length.items():
        feed({name: texts[name][:begin]})
    for _ in range(steps):
        new = {name: [texts[name][at]] for name, at in length.items()}
        length = {name: at + 1 for name, at in length.items()}
        feed(new)
    found = [*length.values()], server.pages.used, server.pages.reserved
    server.pages.release("reader 1")
    length["reader 6"] = 30
    feed({"reader 6": texts["reader 6"][:30]})
    return Served(*found, max(apart))


def _last(model: nn.Module, tokens: list[int]) -> Tensor:
    return model(torch.tensor([tokens]))[0, -1]
