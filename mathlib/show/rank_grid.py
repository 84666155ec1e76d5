"""Ranks in their nodes, coloured by the piece of the model that they hold; and the pieces that each
rank of a ring has after some steps.
"""

from collections.abc import Sequence

from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import piece_look
from mathlib.traffic import comm, mesh

Whose = frozenset[int]  # the ranks whose numbers are in a piece
Held = list[list[Whose]]  # [rank][piece]


def rank_rows(page: Canvas, grid: mesh.Mesh, node: int, nodes: int) -> list[Shape]:
    """The first nodes, a row of ranks for each; ranks of one copy stand close."""
    ranks, S = _rank_boxes(page, grid, node, nodes * node), grid.sizes["shard"]
    for first in range(0, nodes * node, node):
        page.row(_node(page, ranks[first : first + node], first, node, S), above=_space(first, S))
    return ranks


def _rank_boxes(page: Canvas, grid: mesh.Mesh, node: int, ranks: int) -> list[Shape]:
    """A box for each of the first ranks, with the colour of its piece."""
    S = grid.sizes["shard"]
    wide = min(46.0, (page.width - 150) / node - 6)
    found = []
    for r in range(ranks):
        look = piece_look(grid.coordinates(r)["shard"], S)
        hint = f"rank {r}, node {r // node}, piece {r % S} of copy {r // S}"
        text = str(r) if page.wide(str(r)) + 4 < wide else ""
        box = page.box(text, role=look, wide=wide, high=26, solid=True, tight=True, hint=hint)
        found.append(box)
    return found


def _node(page: Canvas, ranks: Sequence[Shape], first: int, node: int, S: int) -> Shape:
    """A node's ranks in a row; copies of the model are apart."""
    parts = [ranks[i : i + S] for i in range(0, node, min(S, node))] if node > S else [ranks]
    line = page.beside(*(page.beside(*part, gap=5) for part in parts), gap=22)
    return page.beside(
        page.words(f"node {first // node}", small=True), line, page.space(50), gap=10
    )


def _space(first: int, S: int) -> float:
    """Between the rows of one copy, or of two."""
    return 12 if first % S else 40 if first else 14


def held_after(ranks: int, steps: int) -> tuple[Held, list[int]]:
    """What every rank holds after so many steps, and which piece came to it last."""
    held: Held = [[frozenset([r])] * ranks for r in range(ranks)]
    came = [-1] * ranks
    turns = [comm.ring_steps(range(ranks), r) for r in range(ranks)]
    for step in range(steps):
        before = [list(row) for row in held]
        for r, (scatter, gather) in enumerate(turns):
            _, p = [*scatter, *gather][step]
            held[r][p] = before[r - 1][p]
            if step < len(scatter):  # add to it what is there
                held[r][p] |= before[r][p]
            came[r] = p
    return held, came
