"""What a real backward pass does in which order: bytes saved and freed, gradients and the work that
is still to come, buckets of PyTorch's DDP, and the visits of PyTorch's own graph.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mathlib import launch
from mathlib.compute import flops, params
from mathlib.compute.autodiff import Value
from mathlib.meters import autograd_graph
from mathlib.meters.arrivals import Event
from mathlib.model import data, gpt, oracle
from mathlib.specs import Model, find_model
from mathlib.trials import autograd_faults
from mathlib.trials import data_parallel_torch as torchs

WORDS, GPT2_WORDS = len(data.vocabulary()), 50_257
SEQUENCES, BUCKET = 8, 2**20  # bytes


def shape(words: int) -> Model:
    """The same GPT with another vocabulary."""
    return gpt.small(layers=3, width=128, vocab=words, context=64)


SHAPE = shape(WORDS)
INPUT = 4 * SEQUENCES * SHAPE.context * SHAPE.width  # bytes that enter a block


def parts_of(model: Any) -> dict[str, list[nn.Module]]:
    """The GPT from bottom to top; what a wrapper of a block has inside counts as the block."""
    parts = {"tables": [model.tokens, model.positions]}
    for i, block in enumerate(model.blocks, 1):
        parts[f"block {i}"] = [block, *block.children()]
    return parts | {"head": [model.norm, model.head]}


def fullest(events: Iterable[Event], part: str = "") -> int:
    """The most bytes that were saved at once, by all parts or by one."""
    signs = {"saved": 1, "released": -1}
    own = [e for e in events if part in ("", e.part)]
    return max(accumulate(e.size * signs.get(e.what, 0) for e in own))


# Small graphs of our engine


def two_uses() -> dict[str, Value]:
    """loss = u v, both of which are made of h."""
    w, x, b = Value(2.0), Value(3.0, needs_grad=False), Value(1.0)
    h = w * x
    u, v = h.relu(), h + b
    values = {"w": w, "x": x, "b": b, "h = w x": h, "u = relu h": u, "v = h + b": v}
    return values | {"loss = u v": u * v}


def two_layers(numbers: Iterable[Tensor]) -> dict[str, Value]:
    """The sum of relu(X W1) W2."""
    X, W1, W2 = (Value(n.tolist()) for n in numbers)
    Y = X @ W1
    H = Y.relu()
    Z = H @ W2
    steps = {"X": X, "W1": W1, "Y = X W1": Y, "H = relu Y": H, "W2": W2, "Z = H W2": Z}
    return steps | {"sum of Z": Z.sum()}


def product_of(n: int) -> tuple[int, int]:
    """Multiplications of n numbers' product, and of backward from it."""
    y = Value(1.5)
    for _ in range(n - 1):
        y = y * Value(1.5)
    y.backward()
    values = y.graph()
    return sum(v.made for v in values), sum(v.made_back for v in values)


# Gradients, and the work that is still to come


def arriving(words: int = WORDS) -> list[tuple[str, int, float]]:
    """Each gradient as it comes: its parameter, its bytes, and the part of backward's FLOP that a
    counter has not seen yet.
    """
    model, found = gpt.GPT(shape(words)), []
    with FlopCounterMode(display=False) as meter:
        loss = model.loss(*data.batch(SEQUENCES, SHAPE.context))
        forward = meter.get_total_flops()
        for name, p in model.named_parameters():
            p.register_post_accumulate_grad_hook(
                lambda p, n=name: found.append((n, p.grad.nbytes, meter.get_total_flops()))
            )
        loss.backward()
        whole = meter.get_total_flops() - forward
    return [(name, size, 1 - (seen - forward) / whole) for name, size, seen in found]


def to_come(arrived: Sequence[tuple[str, int, float]]) -> dict[str, tuple[float, float]]:
    """Backward's part that is left when head and blocks are through: by formula, and counted."""
    sums = flops.backward(SHAPE, sequences=SEQUENCES, tokens=SHAPE.context)
    head = sums.share("vocabulary")
    last = {name.split(".")[1]: left for name, _, left in arrived if name.startswith("blocks")}
    rows = {"the head": (1 - head, arrived[0][2])}
    for i in reversed(range(SHAPE.layers)):
        rows[f"block {i + 1}"] = ((1 - head) * i / SHAPE.layers, last[str(i)])
    return rows


def buckets(arrived: Sequence[tuple[str, int, float]], size: int) -> list[tuple[int, float]]:
    """Bytes of each bucket, and what is left of backward when it is full."""
    found, now = [], 0
    for _, more, left in arrived:
        now += more
        if now >= size:
            found.append((now, left))
            now = 0
    return [*found, (now, 0.0)] if now else found


def late() -> dict[int, tuple[int, int]]:
    """By entries of the vocabulary: bytes of all gradients, and of the buckets that PyTorch's DDP
    sends after the last gradient, in the second step of two ranks.
    """
    return launch.run(lambda: {n: _late(n) for n in (WORDS, GPT2_WORDS)}, 2)[0]


def _late(words: int) -> tuple[int, int]:
    model = gpt.GPT(shape(words))
    outer, notes = torchs.watched(model, bucket_cap_mb=BUCKET / 2**20)
    for _ in range(2):  # the first one packs anew
        notes.events.clear()
        oracle.loss(outer, *data.batch(2, SHAPE.context, dist.get_rank())).backward()
    last = max(e.start for e in notes.events if e.kind == "gradient")
    sent = [(e.bytes, e.start > last) for e in notes.events if e.kind == "communication"]
    return sum(size for size, _ in sent), sum(size for size, after in sent if after)


def course(name: str) -> list[tuple[float, float]]:
    """By formula, block by block: the part of a model's gradients that has come, and the part of
    backward that is left. An embedding comes last; a head of its own comes first.
    """
    model = find_model(name)
    whole, table = params.count(model).total, model.padded_vocab * model.width
    first = 0 if model.tied else table
    blocks = whole - table - first
    rest = 1 - flops.backward(model, sequences=1).share("vocabulary")
    points = [(0.0, 1.0)]
    for i in range(model.layers + 1):
        come = (first + blocks * i / model.layers) / whole
        points.append((come, rest * (1 - i / model.layers)))
    return [*points, (1.0, 0.0)]


# The visits of a backward pass


def nodes_behind(result: Tensor) -> list[Any]:
    """The nodes of PyTorch's graph, in the order of `autograd_graph.walk`."""
    found: list[Any] = [result.grad_fn]
    for node in found:  # grows while we walk
        found += dict.fromkeys(n for n, _ in node.next_functions if n and n not in found)
    return found


class Branch(nn.Sequential):
    """A network of two layers, whose second one a run may leave out."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

    def forward(self, x: Tensor, deep: bool = True) -> Tensor:
        y = self[0](x)
        return (self[2](self[1](y)) if deep else y).sum()


Ran = tuple[list[tuple[int, str]], list[tuple[int, int]], list[int]]


def as_they_run(model: nn.Module, function: Callable[[Tensor], Tensor]) -> Ran:
    """The graph behind a result, and its nodes' numbers in the order in which they run."""
    out, ran = function(torch.ones(2, 3)), []
    nodes, edges = autograd_graph.walk(out, model)
    hooks = [
        node.register_hook(lambda *_, i=i: ran.append(i))
        for i, node in enumerate(nodes_behind(out))
    ]
    out.backward()
    for hook in hooks:  # nodes of leaves live on
        hook.remove()
    return nodes, edges, ran


def eager_and_compiled() -> dict[str, Ran]:
    """The order of one network's nodes, run operation by operation and compiled as a whole."""
    model = Branch()
    compiled: Any = torch.compile(model, backend="aot_eager")
    ways: dict[str, Any] = {"eager": model, "compiled": compiled}
    return {how: as_they_run(model, function) for how, function in ways.items()}


def chain(leaf: Callable[[], Any], one: Any) -> dict[str, Any]:
    """Y1 to Y4, each the product of the one before and a leaf of its own."""
    values, y = {}, one
    for i in range(1, 5):
        values[f"W{i}"] = leaf()
        y = y * values[f"W{i}"]
        values[f"Y{i}"] = y
    return values


def ours_in_order() -> list[str]:
    values = chain(lambda: Value(2.0), Value(1.0, needs_grad=False))
    arrived = values["Y4"].backward()
    names = {value: name for name, value in values.items()}
    return [names[v] for v in reversed(values["Y4"].graph()) if v in arrived]


def torchs_in_order() -> list[str]:
    values = chain(lambda: torch.tensor(2.0, requires_grad=True), torch.tensor(1.0))
    seen: list[str] = []
    for name, tensor in values.items():
        tensor.register_hook(lambda _, name=name: seen.append(name))
    values["Y4"].backward()
    return seen


def visits() -> dict[str, list[str]]:
    """Of the chain: PyTorch's, our engine's, and those before leaves came first."""
    with autograd_faults.built_in("walk: leaves come last"):
        before = ours_in_order()
    return {"PyTorch": torchs_in_order(), "our engine": ours_in_order(), "leaves last": before}
