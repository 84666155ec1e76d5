"""Schemes of how a sum over all ranks comes about: in levels, by which way.

A rank's numbers have its colour, as in the other schemes of the collectives chapter.
"""

from functools import partial
from itertools import pairwise

from mathlib.checks import InputError, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.rank_grid import Whose
from mathlib.show.roles import rank_look
from mathlib.show.schemes.collectives import pieces, rank_legend
from mathlib.show.tables import Shown

LEVELS = "Inside the nodes first, across them with a chunk each, inside again."
FIRST = "Whoever holds the sum first: every other rank has sent before, and must be sent to after."
NCCL = "Rings use every card; a tree joins two nodes at one rank a chunk; a switch adds by itself."


def first_sum(ranks: int = 4, *, caption: str = FIRST, name: str = "") -> Shown:
    """The proof of the bound: messages before and after some rank is the first to hold the sum."""
    draw = partial(_first_sum, ranks=whole("ranks", ranks, least=3))
    return figure(draw, caption=caption, name=name)


def _first_sum(width: float, ranks: int) -> str:
    page = Canvas(width, "One element, and the first rank to hold its sum")
    first = ranks // 2
    inwards = [(r, r + 1 if r < first else r - 1) for r in range(ranks) if r != first]
    panels, drawn = [], []
    for turn, messages in (
        (f"before: {ranks - 1} messages", inwards),
        (f"after: {ranks - 1} messages", [(b, a) for a, b in reversed(inwards)]),
    ):
        row = _ranks(page, range(ranks), ranks, gap=30)
        panels.append(page.panel(turn, page.stacked(page.space(1, 22), row, gap=0)))
        drawn.append((row, messages))
    page.flow(*panels, gap=44)
    for row, messages in drawn:
        for a, b in messages:
            page.arc(_parts(row)[a], _parts(row)[b], role="communication")
    page.note(f"Rank {first} is the first. An arrow is a message with this element in it.")
    return page.done(FIRST)


def _ranks(page: Canvas, which: range, ranks: int, gap: float = 8) -> Shape:
    """Ranks in a row, each in its colour."""
    boxes = [
        page.box(str(r), role=rank_look(r, ranks), wide=26, high=24, solid=True, tight=True)
        for r in which
    ]
    return page.beside(*boxes, gap=gap)


def nccl(node: int = 4, *, caption: str = NCCL, name: str = "") -> Shown:
    """What NCCL chooses from, over two nodes: rings, a tree, a switch that adds inside a node."""
    return figure(partial(_nccl, node=whole("node", node, least=2)), caption=caption, name=name)


def _nccl(width: float, node: int) -> str:
    page = Canvas(width, "Three ways over two nodes")
    panels, drawn = [], []
    for way in ("rings", "tree", "switch and tree"):
        above, below = (_ranks(page, range(i, i + node), 2 * node) for i in (0, node))
        ends = [page.space(above.wide, 20) for _ in range(2)]
        if way == "switch and tree":
            ends = [page.box("switch", wide=above.wide, high=20, tight=True) for _ in range(2)]
        upper = page.stacked(ends[0], above, gap=22)
        lower = page.stacked(below, ends[1], gap=22)
        panels.append(page.panel(way, page.stacked(upper, lower, gap=62)))
        drawn.append((way, ends, _parts(above), _parts(below)))
    page.flow(*panels, gap=34)
    for way, ends, upper_ranks, lower_ranks in drawn:
        if way == "switch and tree":
            for one, two in zip(upper_ranks, lower_ranks, strict=True):
                page.drop(ends[0], one, role="communication")
                page.drop(two, ends[1], role="communication")
        else:
            for one, two in (*pairwise(upper_ranks), *pairwise(lower_ranks)):
                page.arc(one, two, role="communication")
        last = node - 1
        for i in (0, last) if way == "tree" else range(node):
            dash = "4 3" if way == "tree" and i == last else ""
            page.arrow(upper_ranks[i], lower_ranks[i], role="communication", dash=dash)
            page.arrow(lower_ranks[i], upper_ranks[i], role="communication", dash=dash)
    page.note("A row is a node. Lines between the rows go over the network; dashed: other chunks.")
    return page.done(NCCL)


def _parts(shape: Shape) -> list[Shape]:
    return [one for one, *_ in shape.inner]


def held_by_levels(ranks: int, node: int) -> list[list[list[Whose]]]:
    """What each rank holds before, after each of the three steps: [step][rank][piece]."""
    nodes = [frozenset(range(r // node * node, (r // node + 1) * node)) for r in range(ranks)]
    everybody, nobody = frozenset(range(ranks)), frozenset[int]()
    own = [[frozenset([r])] * node for r in range(ranks)]
    inside = [[nodes[r] if p == r % node else nobody for p in range(node)] for r in range(ranks)]
    across = [[everybody if whose else nobody for whose in row] for row in inside]
    return [own, inside, across, [[everybody] * node for _ in range(ranks)]]


def levels(ranks: int = 8, node: int = 4, *, caption: str = LEVELS, name: str = "") -> Shown:
    """A hierarchical all-reduce: what every rank holds after each of its three steps."""
    whole("node", node, least=2)
    if whole("ranks", ranks, least=4) % node:
        raise InputError(f"ranks = {ranks}: expected a multiple of node = {node}")
    return figure(partial(_levels, ranks=ranks, node=node), caption=caption, name=name)


def _levels(width: float, ranks: int, node: int) -> str:
    page = Canvas(width, f"Hierarchical: {ranks // node} nodes of {node} ranks")
    page.bottom = rank_legend(page, ranks)
    turns = ["before", "1. inside", "2. across", "3. inside"]
    notes = ["", "reduce-scatter", "all-reduce", "all-gather"]
    panels = []
    for turn, note, held in zip(turns, notes, held_by_levels(ranks, node), strict=True):
        rows = [
            page.beside(str(r), pieces(page, row, ranks, 30, 15), gap=6)
            for r, row in enumerate(held)
        ]
        nodes = [page.stacked(*rows[i : i + node], gap=2) for i in range(0, ranks, node)]
        panels.append(page.panel(turn, page.stacked(*nodes, gap=12), note=note))
    page.flow(*panels, gap=20)
    page.note(
        "A row is a rank, a column a chunk; a gap parts the nodes. Heavy: all numbers are in."
    )
    return page.done(LEVELS)
