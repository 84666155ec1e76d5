"""Schemes of the planning chapter: the questions of a plan in order, and a layout on its GPUs."""

from functools import partial

from mathlib.checks import InputError, divides, instance, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import rank_look
from mathlib.show.tables import Shown
from mathlib.specs import Layout
from mathlib.traffic import mesh

CARDS = (
    "Each row is a node. GPUs that touch are a tensor group and share every matmul; the colour "
    "says which layers a GPU holds, the number to which replica it belongs."
)
QUESTIONS = (
    ("budget", "GPUs × days"),
    ("model", "parameters, tokens"),
    ("layout", "what each GPU holds"),
    ("step", "seconds"),
    ("run", "days, failures"),
    ("bill", "hours, energy, money"),
)
ORDER = "A plan in the order of this chapter. Each answer is the next question's input."


def order(*, caption: str = ORDER, name: str = "") -> Shown:
    """The questions of a plan, from budget to bill."""
    return figure(_order, caption=caption, name=name)


def _order(width: float) -> str:
    page = Canvas(width, "From a budget to a bill")
    wide = 128.0 if page.narrow else 170.0
    boxes = [page.box(word, note=told, role="forward", wide=wide) for word, told in QUESTIONS]
    half = 2 if page.narrow else 3
    lines_of = [boxes[i : i + half] for i in range(0, len(boxes), half)]
    for i, line in enumerate(lines_of):  # each line the other way
        page.row(*(line[::-1] if i % 2 else line), gap=34, above=30)
    for line in lines_of:
        for a, b in zip(line, line[1:], strict=False):
            page.arrow(a, b)
    for above, below in zip(lines_of, lines_of[1:], strict=False):
        page.arrow(above[-1], below[0])
    return page.done(", then ".join(f"{word}: {told}" for word, told in QUESTIONS))


def cards(layout: Layout, node: int = 8, *, caption: str = CARDS, name: str = "") -> Shown:
    """Every GPU of a layout in its node, by tensor group, stage and replica."""
    lay = instance("layout", layout, Layout)
    if lay.context > 1 or lay.expert > 1:
        raise InputError(f"layout = {lay!r}: expected context = 1 and expert = 1")
    told = {"node": whole("node", node), "nodes": divides("node", node, "world", lay.world)}
    return figure(partial(_cards, lay=lay, node=told["node"]), caption=caption, name=name)


def _cards(width: float, lay: Layout, node: int) -> str:
    page, grid = Canvas(width, f"{lay.world} GPUs"), mesh.of_layout(lay)
    wide = min(40.0, (page.width - 110) / node - 8)
    for first in range(0, lay.world, node):
        groups = [
            _group(page, grid, lay, range(start, start + min(lay.tensor, node)), wide)
            for start in range(first, first + node, min(lay.tensor, node))
        ]
        label = page.words(f"node {first // node}", small=True)
        page.row(label, page.beside(*groups, gap=9), gap=10, above=5)
    stages = [f"layers of stage {i}" for i in range(lay.pipeline)]
    keys = [
        page.beside(
            page.box("", role=rank_look(i, lay.pipeline), wide=14, high=14, solid=True, tight=True),
            page.words(words, small=True),
            gap=5,
        )
        for i, words in enumerate(stages)
    ]
    page.flow(*keys, above=12)
    return page.done(said(lay, node))


def _group(page: Canvas, grid: mesh.Mesh, lay: Layout, ranks: range, wide: float) -> Shape:
    """GPUs that share every matmul, without a gap."""
    boxes = []
    for r in ranks:
        at = grid.coordinates(r)
        hint = f"GPU {r}: replica {at['dp']}, stage {at['pp']}, shard {at['tp']}"
        look = rank_look(at["pp"], max(2, lay.pipeline))
        text = str(at["dp"])
        boxes.append(
            page.box(text, role=look, wide=wide, high=22, solid=True, tight=True, hint=hint)
        )
    return page.beside(*boxes, gap=0)


def said(lay: Layout, node: int) -> str:
    """The picture in words."""
    each = lay.world // node
    return (
        f"{each} nodes of {node} GPUs: {lay.data} replicas of the model, each in {lay.pipeline} "
        f"stages on {lay.tensor} GPUs that share every matmul"
    )
