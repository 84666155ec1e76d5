"""The experiment of the sequences chapter: the blocks of a layer's attention on two clocks."""

from collections.abc import Sequence
from dataclasses import replace

from mathlib import specs
from mathlib.memory import activations
from mathlib.schedule import ring_order, ring_time
from mathlib.schedule.ring_time import Block
from mathlib.show import says, svg
from mathlib.show.experiments import Choice, doubling, experiment
from mathlib.specs import Model
from mathlib.traffic import volumes

MODELS = ("llama2-7b", "llama3-8b", "llama3-70b", "llama3-405b")
X = 0.4 * specs.find_device("h100-sxm").flops_per_second("bf16")
ORDERS = (("ring, plain order", "plain"), ("ring, zigzag", "zigzag"), ("Ulysses", "ulysses"))


@experiment(
    "sequence-blocks",
    "One layer's attention, block by block",
    Choice("order", "Method", ORDERS, "plain"),
    doubling("ranks", "Ranks that share the sequence", 2, 16, 4),
    doubling("tokens", "Tokens of the sequence", 8192, 2**20, 131072),
    Choice("model", "Model", specs.titled("models", MODELS), "llama3-8b"),
    Choice("kv_heads", "Key-value heads", (("the model's", 0), ("1", 1), ("2", 2), ("4", 4)), 0),
    doubling("gigabits", "Link of a rank, one direction", 50, 3200, 400, "Gbit/s"),
    code=(ring_order.look, ring_time.timeline),
)
def sequence_blocks(
    order: str, ranks: int, tokens: int, model: str, kv_heads: int, gigabits: int
) -> str:
    shape = specs.find_model(model)
    shape = replace(shape, context=tokens, kv_heads=kv_heads or shape.kv_heads)
    method = "all-to-all" if order == "ulysses" else "ring"
    how = {"context": ranks, "layers": 1, "method": method}
    sent = volumes.context_parallel(shape, **how).amount("forward")  # type: ignore[arg-type]
    W = gigabits * 1e9 / 8
    if order == "ulysses":
        lines, work = _exchange(shape, ranks, sent, W)
    else:
        lines, work = _ring(shape, order, ranks, sent / max(1, ranks - 1) / W)
    end = max(b for _, events in lines for _, _, b, _ in events)
    chart = svg.timeline(
        lines, title="Attention of a layer, forward", show=says.time, axis_title="time"
    )
    if order == "ulysses" and shape.kv_heads % ranks:
        first = (
            f"Ulysses cannot run like this: {ranks} ranks would have to share "
            f"{_heads(shape.kv_heads)}."
        )
        return f'<p class="mlx-say">{first} Use a ring, or both.</p>' + _facts(shape, ranks, sent)
    first = f"The ranks compute <b>{work / end:.0%}</b> of {says.time(end)}"
    return f'<p class="mlx-say">{first}, forward.</p>{chart}' + _facts(shape, ranks, sent)


def _heads(count: int) -> str:
    return f"{count} key-value heads" if count > 1 else "1 key-value head"


def _whole(shape: Model) -> float:
    """Seconds of all scores and values of a layer, as if none were hidden."""
    return 4 * shape.context**2 * shape.heads * shape.head_dim / X


def _ring(shape: Model, order: str, ranks: int, message: float) -> tuple[list[svg.Line], float]:
    """Lines of the picture, and the seconds that a rank computes, on average."""
    told = {"ranks": ranks, "tokens": shape.context}
    lines, way = [], {"block": _whole(shape) / ranks**2, "message": message}
    rows = ring_time.timeline(order, **told, **way)  # type: ignore[arg-type]
    for r, row in enumerate(rows):
        lines += _rank(r, row, message)
    work = sum(block.seconds for row in rows for block in row) / ranks
    return lines, work


def _rank(r: int, row: Sequence[Block], message: float) -> list[svg.Line]:
    work = [
        ("attention", b.begin, b.begin + b.seconds, f"keys of rank {b.source}")
        for b in row
        if b.seconds
    ]
    wire = [
        ("communication", after.begin - message, after.begin, f"keys of rank {after.source}")
        for after in row[1:]
    ]
    return [(f"rank {r}", work), ("wire", wire)]


def _exchange(shape: Model, ranks: int, sent: float, W: float) -> tuple[list[svg.Line], float]:
    """Queries, keys and values go; each rank attends with its heads; the result comes back."""
    work, back = _whole(shape) / 2 / ranks, shape.heads / (2 * shape.heads + 2 * shape.kv_heads)
    seconds = sent / W
    away, home = seconds * (1 - back), seconds * back
    lines: list[svg.Line] = []
    for r in range(ranks):
        lines.append((f"rank {r}", [("attention", away, away + work, "its heads, all tokens")]))
        going = ("communication", 0.0, away, "queries, keys, values")
        lines.append(
            ("wire", [going, ("communication", away + work, away + work + home, "result")])
        )
    return lines, work


def _facts(shape: Model, ranks: int, sent: float) -> str:
    """What a rank has, keeps and sends."""
    own = {"context": ranks, "attention": "flash"}
    kept = shape.layers * activations.layer(shape, **own).total  # type: ignore[arg-type]
    whole = shape.layers * activations.layer(shape, attention="flash").total
    return (
        f"<p>Each rank has {shape.context // ranks:,} of {shape.context:,} tokens and sends "
        f"{says.size(sent)} in this layer's forward. Without recomputation it keeps "
        f"{says.size(kept)} of activations; one rank alone would keep {says.size(whole)}.</p>"
    )
