"""Who sends how much to whom: a square for each algorithm, a row for each sender, a column for each
receiver.
"""

from collections.abc import Mapping, Sequence
from html import escape

from mathlib.show import says
from mathlib.show.roles import ROLES
from mathlib.show.svg import SMALL, drawing, number, text
from mathlib.show.tables import Shown

SIDE, GAP, TOP = 176, 24, 24
COLOUR = ROLES["communication"][0]
Sent = Sequence[Mapping[int, int]]  # [rank]: receiver to bytes


def links(sent: Mapping[str, Sent], *, node: int, title: str) -> Shown:
    """`sent[name][rank]` maps a receiver to bytes; darker is more. Heavy lines part nodes of `node`
    ranks.
    """
    most = max((b for ranks in sent.values() for row in ranks for b in row.values()), default=0)
    out, said = [], []
    for place, (name, ranks) in enumerate(sent.items()):
        x = place % 2 * (SIDE + GAP + 8) + 16
        y = place // 2 * (SIDE + 62) + TOP
        total, across = _totals(ranks, node)
        out.append(text(x, y - 9, name, weight="bold"))
        out.append(_square(x, y, name, ranks, most) + _grid(x, y, len(ranks), node))
        out.append(text(x, y + SIDE + 18, f"{across} of {total}", size=SMALL))
        out.append(text(x, y + SIDE + 33, "between nodes", size=SMALL))
        said.append(f"{name}: {total} in all, {across} between nodes")
    rows = (len(sent) + 1) // 2
    chart = drawing(rows * (SIDE + 62) + TOP - 20, title, ". ".join(said) + ".", "".join(out))
    return Shown(f"<figure>{chart}</figure>", f"{title}: " + "; ".join(said))


def _totals(ranks: Sent, node: int) -> tuple[str, str]:
    """All bytes, and those of them that leave a node, in words."""
    total = sum(sum(row.values()) for row in ranks)
    across = sum(
        b for r, row in enumerate(ranks) for to, b in row.items() if r // node != to // node
    )
    return says.size(total), says.size(across)


def _square(x: float, y: float, name: str, ranks: Sent, most: int) -> str:
    """A cell for each pair that speaks, the darker the more, with the numbers as a tooltip."""
    out = []
    cell = SIDE / len(ranks)
    for r, row in enumerate(ranks):
        out.append(text(x - 4, y + cell * (r + 0.5) + 4, str(r), anchor="end", size=SMALL))
        for to, b in sorted(row.items()):
            words = f"{escape(name)}: rank {r} sends {says.size(b)} to rank {to}"
            left, top, wide = number(x + to * cell), number(y + r * cell), number(cell)
            out.append(
                f'<path d="M{left} {top}h{wide}v{wide}h-{wide}z" fill="{COLOUR}" '
                f'fill-opacity="{0.15 + 0.85 * b / (most or 1):.2f}"><title>{words}</title></path>'
            )
    return "".join(out)


def _grid(x: float, y: float, n: int, node: int) -> str:
    """Lines between the cells, heavy where a node ends."""
    out = []
    cell = SIDE / n
    for i in range(n + 1):
        heavy = 1.6 if i % node == 0 else 0.3
        down = f"M{number(x + i * cell)} {number(y)}v{SIDE}"
        along = f"M{number(x)} {number(y + i * cell)}h{SIDE}"
        out.append(f'<path d="{down}{along}" stroke="currentColor" stroke-width="{heavy}"/>')
    return "".join(out)
