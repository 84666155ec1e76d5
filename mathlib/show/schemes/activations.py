"""Schemes of the activations chapter: a layer with all that it keeps, and what policies keep."""

from collections.abc import Mapping, Sequence
from functools import partial

from mathlib import specs
from mathlib.memory import activations, kept
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import ROLES, Look
from mathlib.show.tables import Shown

GELU = {  # an operation: the tensors that its backward reads
    "norm": (kept.INPUT,),
    "query, key, value": ("attention input",),
    "scores": ("queries", "keys"),
    "softmax": ("softmax",),
    "dropout": ("softmax mask",),
    "weighted sum": ("softmax after dropout", "values"),
    "output matrix": ("projection input",),
    "dropout ": ("attention output mask",),
    "norm ": ("2. norm input",),
    "first MLP matrix": ("mlp input",),
    "GELU": ("activation input",),
    "last MLP matrix": ("second input",),
    "dropout  ": ("mlp output mask",),
}
GATED = {
    "norm": (kept.INPUT,),
    "query, key, value": ("attention input",),
    "flash attention": ("queries", "keys", "values"),
    "output matrix": ("projection input",),
    "norm ": ("2. norm input",),
    "gate and up": ("mlp input",),
    "SiLU": ("gate",),
    "gate times up": ("activated gate", "up"),
    "last MLP matrix": ("second input",),
}
CALLED = {  # by what a tensor is; memory.kept calls it by who reads it
    kept.INPUT: "layer's input",
    "attention input": "first norm's result",
    "softmax mask": "mask of the scores",
    "softmax after dropout": "scores after dropout",
    "projection input": "attention's result",
    "attention output mask": "mask after attention",
    "2. norm input": "stream after attention",
    "mlp input": "second norm's result",
    "activation input": "GELU's input",
    "second input": "GELU's result",
    "gate": "gate, SiLU's input",
    "activated gate": "SiLU's result",
    "mlp output mask": "mask after the MLP",
}
GATE_TIMES_UP = "gate times up"
MATMUL, FREE = ROLES["activations"], ROLES["recompute"]
LEGEND: list[tuple[str, Look]] = [
    ("result of a matmul", MATMUL),
    ("comes back without a matmul", FREE),
]
WIDEST = 8  # squares in a row
HIGH = 15.0  # of a square
UNITS = 340.0  # height of all bytes of a layer, policy beside policy


def block(model: str | specs.Model, *, caption: str, name: str = "") -> Shown:
    """A layer from top to bottom, and beside each operation what it keeps, in bytes of s b h."""
    return figure(partial(_block, model=specs.find_model(model)), caption=caption, name=name)


def _sizes(model: specs.Model) -> dict[str, tuple[float, bool]]:
    """Bytes over s b h of every tensor, and whether a matmul made it."""
    unit = model.context * model.width
    found = {one.name: (one.bytes / unit, one.flop > 0) for one in kept.tensors(model)}
    return {kept.INPUT: (activations.hidden_state(model) / unit, True)} | found


def _block(width: float, model: specs.Model) -> str:
    page = Canvas(width, f"What a layer of {model.title} keeps, in bytes of s b h")
    page.bottom = page.legend(LEGEND, page.bottom) + 4
    sizes, steps = _sizes(model), GATED if model.gated else GELU
    wide = max(page.wide(step.strip()) for step in steps) + 18
    cell = min(30.0, (width - wide - 30 - (130 if not page.narrow else 92)) / WIDEST)
    above: Shape | None = None
    for step, read in steps.items():
        rows = [_tensor(page, called(name, model), *sizes[name], cell) for name in read]
        beside = page.stacked(*rows, gap=4, align="start")
        box = page.box(step.strip(), wide=wide, high=24.0)
        top, high = page.bottom + 16, max(box.high, beside.high)
        page.at(box, 0, top + (high - box.high) / 2)
        page.at(beside, wide + 26, top + (high - beside.high) / 2)
        page.bottom = top + high
        if above:
            page.arrow(above, box)
        above = box
    total = sum(size for size, _ in sizes.values())
    free = sum(size for size, made in sizes.values() if not made)
    page.bottom += 6
    page.note(f"together {total:.3g}, of them {free:.3g} without a matmul")
    said = (f"{called(n, model)}: {size:.3g}" for n, (size, _) in sizes.items())
    return page.done(", ".join(said))


def called(name: str, model: str | specs.Model) -> str:
    """What a tensor of `memory.kept` is, in words."""
    if name == "second input" and specs.find_model(model).gated:
        return GATE_TIMES_UP
    return CALLED.get(name, name)


def _tensor(page: Canvas, name: str, size: float, matmul: bool, cell: float) -> Shape:
    """A square for each byte of s b h, in rows of eight, and what it is."""
    look = MATMUL if matmul else FREE
    full, rest = int(size // WIDEST), size % WIDEST
    parts = [page.grid([[look] * WIDEST] * full, cell=cell, high=HIGH, hint=name)] if full else []
    row = [page.grid([[look] * int(rest)], cell=cell, high=HIGH, hint=name)] if rest >= 1 else []
    if rest % 1:
        row.append(page.grid([[look]], cell=rest % 1 * cell, high=HIGH, hint=name))
    parts += [page.beside(*row, gap=0)] if row else []
    squares = page.stacked(*parts, gap=0, align="start")
    words = page.words(f"{size:.3g} {name}", small=True, quiet=True, anchor="start")
    if page.narrow:
        return page.stacked(words, squares, gap=1, align="start")
    return page.beside(squares, words, gap=7)


def policies(
    model: str | specs.Model,
    keeps: Mapping[str, Sequence[str]],
    *,
    caption: str,
    name: str = "",
) -> Shown:
    """A row for each tensor of a layer, as high as it has bytes; a column for each policy."""
    draw = partial(_policies, model=specs.find_model(model), keeps=keeps)
    return figure(draw, caption=caption, name=name)


def _policies(width: float, model: specs.Model, keeps: Mapping[str, Sequence[str]]) -> str:
    page = Canvas(width, f"What a layer of {model.title} keeps by policy")
    page.bottom = page.legend(LEGEND, page.bottom) + 8
    sizes = _sizes(model)
    labels = {
        n: page.words(f"{s:.3g} {called(n, model)}", small=True, anchor="start")
        for n, (s, _) in sizes.items()
    }
    left = max(label.wide for label in labels.values()) + 12
    pitch = (width - left) / len(keeps)
    heads = [page.words(head, small=True, bold=True, room=pitch - 4) for head in keeps]
    top, high = page.bottom, max(head.high for head in heads)
    for i, head in enumerate(heads):
        page.at(head, left + pitch * (i + 0.5) - head.wide / 2, top + high - head.high)
    y = top + high + 6
    unit_high = UNITS / sum(size for size, _ in sizes.values())
    for one, (size, matmul) in sizes.items():
        tall = size * unit_high
        step = max(tall + 3, labels[one].high)
        page.at(labels[one], 0, y + (step - labels[one].high) / 2)
        for i, names in enumerate(keeps.values()):
            there = one in (kept.INPUT, *names)
            look = (MATMUL if matmul else FREE) if there else None
            cell = page.grid([[look]], cell=min(64.0, pitch - 8), high=tall, hint=one)
            page.at(cell, left + pitch * (i + 0.5) - cell.wide / 2, y + (step - tall) / 2)
        y += step
    said = []
    for i, (policy, names) in enumerate(keeps.items()):
        left_over = kept.layer(model, keep=names)
        unit, whole = model.context * model.width, kept.forward_flop(model)
        share = left_over.flop / whole / 3
        foot = page.words(f"{left_over.bytes / unit:.3g}\n+{share:.1%}", small=True, bold=True)
        page.at(foot, left + pitch * (i + 0.5) - foot.wide / 2, y + 4)
        said.append(f"{policy} keeps {left_over.bytes / unit:.3g}")
    foot = page.words("bytes of s b h\nFLOP of a step", small=True, quiet=True, anchor="start")
    page.at(foot, 0, y + 4)
    return page.done(", ".join(said))


MOMENTS = (  # what is said, and of which layers the insides are there
    ("forward, in the second layer", (1,)),
    ("forward is over", ()),
    ("backward, in the third layer", (2,)),
    ("backward, in the second layer", (1,)),
)


def again(*, caption: str, name: str = "") -> Shown:
    """Three layers at four moments of a step: inputs stay, insides go and come back."""
    return figure(_again, caption=caption, name=name)


def _again(width: float) -> str:
    page = Canvas(width, "Three layers, recomputed")
    looks: list[tuple[str, Look]] = [("input, kept", MATMUL), ("inside, there for a moment", FREE)]
    page.bottom = page.legend(looks, page.bottom) + 2
    cell, inside = (15.0 if page.narrow else 24.0), 4
    heads = [page.words(f"layer {i}", small=True, bold=True) for i in (1, 2, 3)]
    said = []
    for number, (moment, there) in enumerate(MOMENTS):
        last = 2 if number == 0 else 3 - max(0, number - 2)  # inputs that exist, or still do
        rows = []
        for layer in range(3):
            kept_one = page.grid([[MATMUL if layer < last else None]], cell=cell)
            look = FREE if layer in there else None
            rows.append(page.beside(kept_one, page.grid([[look] * inside], cell=cell), gap=3))
            if number == 0:
                rows[-1] = page.stacked(heads[layer], rows[-1], gap=3)
        words = page.words(moment, small=True, anchor="start")
        line = page.beside(*rows, gap=cell, align="end")
        page.row(page.stacked(words, line, gap=4, align="start"), above=12)
        said.append(f"{moment}: {last} inputs, insides of {len(there)}")
    return page.done("; ".join(said))
