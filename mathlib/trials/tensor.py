"""The plain files of tensor parallelism, run: the model they train, what a rank sends and keeps,
and two ways to go wrong that no error message tells of.

t tensor ranks · b sequences · s tokens · V vocabulary
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib import launch
from mathlib.memory import activations
from mathlib.meters import live, wire
from mathlib.model import data, gpt, modern, oracle
from mathlib.parallel.plain import ring, sequence_parallel, tensor, vocabulary
from mathlib.parallel.tensor.tensor_parallel import TensorParallel
from mathlib.specs import find_model
from mathlib.traffic import comm, volumes

SHAPE = gpt.small(layers=2, width=48, heads=12, context=12, ffn_width=101, vocab=61)
SEQUENCES, STEPS, NUMBER = 5, 3, 4  # bytes
WAYS: dict[str, tuple[Callable, Callable]] = {
    "tensor": (tensor.cut, oracle.loss),
    "vocabulary": (vocabulary.cut, vocabulary.loss),
    "sequence": (sequence_parallel.cut, vocabulary.loss),
}


def batch(step: int = 0) -> list[Tensor]:
    """Tokens and targets, alike on every rank."""
    return [t % SHAPE.vocab for t in data.batch(SEQUENCES, SHAPE.context, step)]


# Whether ranks train the model of one process

Patch = tuple[Any, str, Any]
BROKEN: dict[str, list[Patch]] = {
    "": [],
    "the sum forward": [(tensor.AllReduceForward, "forward", lambda ctx, x, group: x.view_as(x))],
    "the sum backward": [(tensor.AllReduceBackward, "backward", lambda ctx, dx: (dx, None))],
}


@contextlib.contextmanager
def without(what: str) -> Iterator[None]:
    """A part of the exchange left out."""
    with contextlib.ExitStack() as stack:
        for where, name, new in BROKEN[what]:
            stack.enter_context(patch.object(where, name, staticmethod(new)))
        yield


def _apart(way: str, optimizer: str) -> float:
    """How far this rank's weights ever are from its part of what one process has."""
    (cut, loss), make = WAYS[way], oracle.OPTIMIZERS[optimizer]
    one, mine = gpt.GPT(SHAPE).double(), cut(gpt.GPT(SHAPE).double())
    makers, far = [make(one.parameters()), make(mine.parameters())], []
    for step in range(STEPS):
        oracle.step(one, makers[0], *batch(step))
        oracle.step(mine, makers[1], *batch(step), loss=loss)
        wanted = cut(copy.deepcopy(one)).state_dict()
        far += [(p - wanted[name]).abs().max() for name, p in mine.state_dict().items()]
    return torch.stack(far).max().item()


def _all_apart(cases: list[tuple[str, str, str]]) -> list[float]:
    found = []
    for way, optimizer, what in cases:
        with without(what):
            found.append(_apart(way, optimizer))
    return found


def distances(ranks: int, cases: list[tuple[str, str, str]]) -> list[float]:
    """How far the weights of any rank are from one process's in three steps of each case: plain
    file, optimizer, what is left out.
    """
    return [max(found) for found in zip(*launch.run(_all_apart, ranks, cases), strict=True)]


# What a rank sends and keeps


def predicted(way: str, ranks: int) -> float:
    """Bytes that a rank sends in a step, by the formulas."""
    of: dict[str, Any] = {"tensor": ranks, "micro_batch": SEQUENCES, "bytes_per_element": NUMBER}
    total = volumes.tensor_parallel(SHAPE, **of).total
    if way != "tensor":
        split = way == "sequence"
        total += volumes.vocabulary_parallel(SHAPE, **of, sequence_parallel=split).total
    if way == "sequence":
        total += comm.sent("all-reduce", payload=NUMBER * _alike(), ranks=ranks)
    return total


def _alike() -> int:
    """Numbers of parameters that are whole on each rank, and see only some of the tokens."""
    names = ("norm", "out.bias", "down.bias")
    named = gpt.GPT(SHAPE).named_parameters()
    return sum(p.numel() for n, p in named if any(one in n for one in names))


def _sent() -> dict[str, tuple[float, float]]:
    found = {}
    for way, (cut, loss) in WAYS.items():
        model = cut(gpt.GPT(SHAPE))
        loss(model, *batch()).backward()  # opens connections
        with wire.sent() as counts:
            loss(model, *batch()).backward()
        found[way] = counts.program, counts.system
    return found


def counted(ranks: int) -> dict[str, tuple[float, float, float]]:
    """Bytes that a rank sends in a step, on average over the ranks: formula, program, system."""
    found = launch.run(_sent, ranks)
    means = {w: [sum(rank[w][i] for rank in found) / ranks for i in (0, 1)] for w in WAYS}
    return {way: (predicted(way, ranks), *means[way]) for way in WAYS}


def _keeps(way: str, layers: int) -> int:
    shape = gpt.small(**{**DEEP, "layers": layers})
    (cut, loss), tokens = WAYS[way], batch()
    model = cut(gpt.GPT(shape))
    return live.held_bytes(lambda: loss(model, *tokens), model, *tokens)


DEEP = {"width": 48, "heads": 12, "context": 12, "ffn_width": 192, "vocab": 61}


def _kept() -> dict[str, int]:
    return {way: _keeps(way, 2) - _keeps(way, 1) for way in ("vocabulary", "sequence")}


def gathered(ranks: int) -> float:
    """Bytes that the plain file of sequence parallelism has gathered for a layer's two column
    cuts, and keeps.
    """
    stream = NUMBER * SEQUENCES * DEEP["context"] * DEEP["width"]
    return 2 * stream * (ranks - 1) / ranks


def formula(ranks: int, split: bool = False) -> float:
    """Bytes that a layer leaves for backward; split: by sequence parallelism."""
    how: dict[str, Any] = {"micro_batch": SEQUENCES, "bytes_per_element": NUMBER, "tensor": ranks}
    shape = gpt.small(**DEEP, layers=2)
    return activations.layer(shape, **how, small_tensors=True, sequence_parallel=split).total


def kept(ranks: int) -> dict[str, tuple[float, float]]:
    """Bytes that a layer leaves for backward: by the formula and what is gathered, measured."""
    found = launch.run(_kept, ranks)[0]
    return {
        "tensor parallel": (formula(ranks), found["vocabulary"]),
        "sequence parallel": (formula(ranks, True) + gathered(ranks), found["sequence"]),
    }


# Two traps

NORMED = find_model("llama3-8b").but(
    layers=2, width=24, heads=4, context=12, vocab=61, padded_vocab=61, kv_heads=2, head_dim=6,
    ffn_width=25, query_key_norm="head",
)  # fmt: skip


def _norms(summed: bool) -> tuple[float, float, float]:
    whole = modern.Modern(NORMED).double()
    loss = oracle.loss(whole, *batch())
    loss.backward()
    keep = patch.object(TensorParallel, "_sum_partial_gradients", lambda self: None)
    with contextlib.nullcontext() if summed else keep:
        mine = TensorParallel(modern.Modern(NORMED).double())
    found = mine.loss(*batch())
    found.backward()
    gradients, far = mine.whole_gradients(), {"norms": 0.0, "": 0.0}
    for name, p in whole.named_parameters():
        assert p.grad is not None
        kind = "norms" if ".heads.norms." in name else ""
        far[kind] = max(far[kind], (gradients[name] - p.grad).abs().max().item())
    return (found - loss).abs().item(), far["norms"], far[""]


def norms(ranks: int, summed: bool) -> tuple[float, float, float]:
    """How far from one process are the loss, the gradients of the query-key norms, all others."""
    by_rank = launch.run(_norms, ranks, summed)
    loss, own, others = (max(found) for found in zip(*by_rank, strict=True))
    return loss, own, others


def floored(n: int, group: Any) -> range:
    """A rank's words when V/t is rounded down: the last words are nobody's."""
    rank, ranks = ring.place(group)
    return range(n // ranks * rank, n // ranks * (rank + 1))


def _losses(steps: int) -> tuple[float, float, float]:
    model, found = gpt.GPT(SHAPE).double(), []
    for way in (tensor.own, floored):
        with patch.object(tensor, "own", way):
            cut = vocabulary.cut(copy.deepcopy(model))
            make = torch.optim.Adam(cut.parameters(), lr=0.01)
            losses = [oracle.step(cut, make, *batch(), loss=vocabulary.loss) for _ in range(steps)]
            found.append(losses[-1])
    make = torch.optim.Adam(model.parameters(), lr=0.01)
    one = [oracle.step(model, make, *batch()) for _ in range(steps)]
    return one[-1], found[0], found[1]


def last_words(ranks: int, steps: int = 12) -> tuple[float, float, float]:
    """The loss after some steps: of one process, with every word on a rank, with V/t floored."""
    return launch.run(_losses, ranks, steps)[0]


def shards(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of a block's matrices that this rank has."""
    found = model.state_dict().items()
    return {n.removeprefix("blocks.0."): tuple(p.shape) for n, p in found if _matrix(n)}


def _matrix(name: str) -> bool:
    return name.startswith("blocks.0.") and name.endswith(".weight") and "norm" not in name


def all_shards(ranks: int) -> list[dict[str, tuple[int, ...]]]:
    """Of every rank, of the model cut over so many."""
    return launch.run(lambda: shards(tensor.cut(gpt.GPT(SHAPE))), ranks)


def alike(ranks: int) -> bool:
    """Whether norms are the same on every rank after some steps; each rank updates its own."""

    def run() -> bool:
        model: Any = vocabulary.cut(gpt.GPT(SHAPE))
        make = torch.optim.Adam(model.parameters())
        for step in range(STEPS):
            oracle.step(model, make, *batch(step), loss=vocabulary.loss)
        first = model.norm.weight.detach().clone()
        dist.broadcast(first, 0)
        return torch.equal(first, model.norm.weight)

    return all(launch.run(run, ranks))
