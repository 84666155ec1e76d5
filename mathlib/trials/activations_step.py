"""Peak memory of a step: layers recomputed together, and a loss in chunks."""

from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mathlib import specs
from mathlib.memory import kept
from mathlib.meters import live
from mathlib.model import gpt, oracle, recompute
from mathlib.model.chunked_loss import chunked_loss
from mathlib.model.recompute import recomputed
from mathlib.trials.activations import words

DEEP = ("llama3-8b", "llama3-70b", "llama3-405b")
SMALL = gpt.small(layers=48, width=64, heads=1, context=64, vocab=64)
GROUPS = (1, 2, 3, 4, 6)
MOST = range(1, 13)  # layers together
WORDY = gpt.small(
    layers=3, width=32, context=128, vocab=specs.find_model("llama3-8b").vocab, tied=False
)
PIECES = 8


def fullest(every: int) -> int:
    """The most bytes alive beside weights and gradients, `every` layers recomputed together."""
    model, batch = gpt.GPT(SMALL, "flash"), words(SMALL)
    with live.live(model) as meter:
        for tensor in batch:
            meter.follow(tensor, "temporary")
        recompute.loss(model, *batch, wrap=recomputed, every=every).backward()  # type: ignore[call-arg]
    rows = meter.timeline().rows
    return max(sum(row.values()) - row["weights"] - row["gradients"] for row in rows)


@lru_cache
def groups() -> dict[int, tuple[float, int]]:
    """Bytes of the layers by formula and run, for several numbers of layers together."""
    how = {"micro_batch": 2, "attention": "flash", "bytes_per_element": 4}
    return {q: (kept.grouped(SMALL, every=q, **how)[1], fullest(q)) for q in GROUPS}


def lowest(name: str) -> int:
    """How many layers together make the peak lowest, the loss aside."""
    return min(MOST, key=lambda q: kept.grouped(name, every=q)[1])


def over_lowest() -> dict[str, list[tuple[int, float]]]:
    """The peak over the lowest one, of three models by formula and of the run."""
    found = {}
    for name in DEEP:
        sizes = {q: kept.grouped(name, every=q)[1] for q in MOST}
        title = specs.find_model(name).title.removeprefix("Llama 3 ")
        found[title] = [(q, size / min(sizes.values())) for q, size in sizes.items()]
    ran = {q: size for q, (_, size) in groups().items()}
    return found | {"run": [(q, size / min(ran.values())) for q, size in ran.items()]}


def with_loss(name: str, q: int) -> float:
    """The peak with a whole loss: beside all inputs, or the first group that is back."""
    model = specs.find_model(name)
    after, back = kept.grouped(model, every=q)
    return max(after + 12 * model.context * model.vocab, back)


def again(name: str, q: int) -> float:
    """FLOP done again over those of a step: one layer of each group stops early."""
    L, forward = specs.find_model(name).layers, kept.forward_flop(name)
    last = forward - kept.layer(name, keep=()).flop
    return (L * forward - -(-L // q) * last) / (3 * L * forward)


class Losses(NamedTuple):
    """A step with the loss whole and one with it in chunks."""

    line: live.Timeline
    peaks: list[int]
    pairs: dict[str, tuple[float, float]]  # bytes beside the weights, by formula and run
    apart: float  # of the gradients, relative


def body(model: gpt.GPT, tokens: Tensor) -> Tensor:
    """All but the head, its layers recomputed."""
    x = recompute.embed(model, tokens)
    for block in model.blocks:
        x = recomputed(block, x)
    return model.norm(x)


def _whole(model: gpt.GPT, tokens: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model.head(body(model, tokens)).flatten(0, 1), targets.flatten())


def _in_chunks(model: gpt.GPT, tokens: Tensor, targets: Tensor) -> Tensor:
    return chunked_loss(body(model, tokens), model.head.weight, targets, pieces=PIECES)


def losses() -> Losses:
    """Both losses on one batch, with all 128,256 entries of Llama 3's vocabulary."""
    model, batch = gpt.GPT(WORDY, "flash"), words(WORDY)
    turn = iter((_whole, _in_chunks))
    model.loss = lambda *batch: next(turn)(model, *batch)  # type: ignore[method-assign]
    sgd = torch.optim.SGD(model.parameters(), lr=0.0, foreach=False)
    line = live.step_timeline(model, [batch, batch], sgd)  # type: ignore[list-item]
    tops = [max(range(*span), key=line.total) for span in line.steps()]
    whole, pieces = (line.total(row) - line.rows[row]["weights"] for row in tops)
    after = line.at("forward", 1)
    n, V, h = 2 * WORDY.context, WORDY.vocab, WORDY.width
    two = 4 * (n * h + V * h)
    pairs: dict[str, tuple[float, float]] = {
        "whole, peak": (12 * n * V, whole),
        "in chunks, peak": (two + 8 * n * V / PIECES, pieces),
        "in chunks, kept": (two, sum(after.values()) - after["weights"]),
    }
    one, other = (_gradient(model, partial(way, model)(*batch)) for way in (_whole, _in_chunks))
    apart = ((one - other).norm() / one.norm()).item()
    return Losses(line, [line.total(row) for row in tops], pairs, apart)


def _gradient(model: gpt.GPT, loss: Tensor) -> Tensor:
    model.zero_grad()
    loss.backward()
    return oracle.flat_gradient(model).clone()
