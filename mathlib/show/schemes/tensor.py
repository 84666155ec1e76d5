"""Schemes of the tensor chapter: an MLP cut into columns and rows, heads distributed, and where the
ranks meet.

A matrix is filled where a rank has it, and pale where other ranks do.
"""

from collections.abc import Callable
from functools import partial

from mathlib.checks import divides, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.tables import Shown

MLP = (
    "Columns first, then rows: the activation works on finished numbers of the hidden layer, and "
    "only the results have to be added up."
)
HEADS = (
    "Heads stay whole. With more ranks than key-value heads, neighbours have the same one, and add "
    "up its gradients."
)
MEET = (
    "An all-reduce is a reduce-scatter and an all-gather. Sequence parallelism lets the norms and "
    "sums stand between the two, on 1/t of the tokens."
)
TOKENS, WIDTH, HIDDEN = 3, 3, 6  # cells
Filled = Callable[[int, int], bool]


def mlp(tensor: int = 2, *, caption: str = MLP, name: str = "") -> Shown:
    """What each rank has of Y = act(Z A) B."""
    t = whole("tensor", tensor, least=2)
    divides("tensor", t, "hidden cells", HIDDEN)
    return figure(partial(_mlp, t=t), caption=caption, name=name)


def _mlp(width: float, t: int) -> str:
    page = Canvas(width, f"Y = act(Z A) B on {t} ranks")
    lines = [_cut(page, r, HIDDEN // t) for r in range(t)]
    for line in lines:
        page.row(line, above=12)
    bar = page.box(
        "all-reduce: the partial sums become Y, on every rank",
        role="communication",
        solid=True,
        wide=min(width - 8, 600),
    )
    page.row(bar, above=26)
    page.drop(page.last(lines[-1]), bar)
    return page.done(
        f"Each of {t} ranks multiplies all of Z with its columns of A, applies the activation, "
        "multiplies with its rows of B, and the results are added up"
    )


def _cut(page: Canvas, r: int, each: int) -> Shape:
    """A rank's line: Z times columns is its part of H; times rows, a partial sum."""
    cell, gap = (10, 5) if page.narrow else (16, 12)
    own = range(r * each, (r + 1) * each)

    def drawn(name: str, rows: int, columns: int, role: str, has: Filled) -> Shape:
        return page.matrix(name, rows=rows, columns=columns, role=role, filled=has, cell=cell)

    shapes: list[Shape | str] = [
        drawn("", TOKENS, WIDTH, "activations", lambda i, j: True),
        "·",
        drawn("", WIDTH, HIDDEN, "weights", lambda i, j: j in own),
        "→",
        drawn("", TOKENS, HIDDEN, "activations", lambda i, j: j in own),
        "·",
        drawn("", HIDDEN, WIDTH, "weights", lambda i, j: i in own),
        "=",
        drawn("", TOKENS, WIDTH, "temporary", lambda i, j: True),
    ]
    names = ("Z", "", "A", "", "act(Z A)", "", "B", "", "part of Y")
    named = [
        page.stacked(page.words(name, small=True), shape, gap=4) if name else shape
        for name, shape in zip(names, shapes, strict=True)
    ]
    head = page.words(f"rank {r}", bold=True)
    if page.narrow:
        return page.stacked(head, page.beside(*named, gap=gap), gap=2, align="start")
    return page.beside(head, page.space(10), *named, gap=gap)


def heads(
    tensor: int = 4, queries: int = 8, keys: int = 2, *, caption: str = HEADS, name: str = ""
) -> Shown:
    """Which heads of queries, and of keys and values, each rank has."""
    t = whole("tensor", tensor, least=2)
    divides("tensor", t, "queries", queries)
    divides("keys", whole("keys", keys), "queries", queries)
    divides(*(("keys", keys, "tensor", t) if keys < t else ("tensor", t, "keys", keys)))
    return figure(partial(_heads, t=t, a=queries, k=keys), caption=caption, name=name)


def _heads(width: float, t: int, a: int, k: int) -> str:
    page = Canvas(width, f"{a} heads of queries and {k} of keys and values on {t} ranks")
    own = {r: range(k * r // t, max(k * (r + 1) // t, k * r // t + 1)) for r in range(t)}
    panels = []
    for r in range(t):
        mine = [f"q{i}" for i in range(a * r // t, a * (r + 1) // t)]
        theirs = [f"kv{i}" for i in own[r]]
        rows = [
            page.grid([[role] * len(texts)], cell=36, high=26, texts=[texts])
            for role, texts in (("attention", mine), ("cache", theirs))
        ]
        panels.append(page.panel(f"rank {r}", page.stacked(*rows, gap=6)))
    page.flow(*panels, gap=18, above=10)
    told = "; ".join(f"rank {r}: {', '.join(map(str, own[r]))}" for r in range(t))
    return page.done(f"Each rank has {a // t} heads of queries. Heads of keys and values, {told}")


def meet(*, caption: str = MEET, name: str = "") -> Shown:
    """What a rank works on before, between and after the matmuls, with and without sequence
    parallelism.
    """
    return figure(_meet, caption=caption, name=name)


def _meet(width: float) -> str:
    page = Canvas(width, "Where the ranks meet")
    ways = {
        "Tensor parallel": ("s tokens", "nothing to send", "all-reduce"),
        "Sequence parallel": ("s/t tokens", "all-gather", "reduce-scatter"),
    }
    wide, panels, chains = min(250.0, width - 20), [], []
    for title, (tokens, reads, adds) in ways.items():
        boxes = [
            page.box("norm", note=tokens, role="activations", wide=wide),
            page.box(reads, role="communication" if "all" in reads else "", wide=wide),
            page.box("columns, then rows", note="s tokens, 1/t of each", role="weights", wide=wide),
            page.box(adds, role="communication", wide=wide),
            page.box("dropout, sum", note=tokens, role="activations", wide=wide),
        ]
        chains.append(boxes)
        panels.append(page.panel(title, page.stacked(*boxes, gap=20)))
    page.flow(*panels, gap=30, above=10)
    for boxes in chains:
        for above, below in zip(boxes, boxes[1:], strict=False):
            page.drop(above, below)
    return page.done(
        "Tensor parallel: norms on all tokens, an all-reduce after the rows. Sequence parallel: "
        "norms on 1/t of the tokens, an all-gather before the columns, a reduce-scatter after "
        "the rows"
    )
