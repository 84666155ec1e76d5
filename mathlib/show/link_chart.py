"""Who sends how much to whom: a square for each algorithm, a row for each sender, a column for each
receiver.
"""

from collections.abc import Mapping, Sequence
from html import escape

from mathlib import units
from mathlib.show.svg import ROLES, SMALL, drawing, number, text
from mathlib.show.tables import Shown

SIDE, GAP, TOP = 176, 24, 24
COLOUR = ROLES["communication"][0]


def links(sent: Mapping[str, Sequence[Mapping[int, int]]], *, node: int, title: str) -> Shown:
    """`sent[name][rank]` maps a receiver to bytes; darker is more. Heavy lines part nodes of `node`
    ranks.
    """
    most = (
        max((b for ranks in sent.values() for row in ranks for b in row.values()), default=0) or 1
    )
    out, said = [], []
    for place, (name, ranks) in enumerate(sent.items()):
        x, y = place % 2 * (SIDE + GAP + 8) + 16, place // 2 * (SIDE + 62) + TOP
        out.append(text(x, y - 9, name, weight="bold") + _square(x, y, name, ranks, most, node))
        total = sum(sum(row.values()) for row in ranks)
        across = sum(
            b for r, row in enumerate(ranks) for to, b in row.items() if r // node != to // node
        )
        out.append(text(x, y + SIDE + 18, f"{_bytes(across)} of {_bytes(total)}", size=SMALL))
        out.append(text(x, y + SIDE + 33, "between nodes", size=SMALL))
        said.append(f"{name}: {_bytes(total)} in all, {_bytes(across)} between nodes")
    rows = (len(sent) + 1) // 2
    chart = drawing(rows * (SIDE + 62) + TOP - 20, title, ". ".join(said) + ".", "".join(out))
    return Shown(f"<figure>{chart}</figure>", f"{title}: " + "; ".join(said))


def _square(
    x: float, y: float, name: str, ranks: Sequence[Mapping[int, int]], most: int, node: int
) -> str:
    n, out = len(ranks), []
    cell = SIDE / n
    for r, row in enumerate(ranks):
        out.append(text(x - 4, y + cell * (r + 0.5) + 4, str(r), anchor="end", size=SMALL))
        for to, b in sorted(row.items()):
            words = f"<title>{escape(name)}: rank {r} sends {_bytes(b)} to rank {to}</title>"
            path = (
                f"M{number(x + to * cell)} "
                f"{number(y + r * cell)}h{number(cell)}v{number(cell)}h-{number(cell)}z"
            )
            out.append(
                f'<path d="{path}" fill="{COLOUR}" fill-opacity="{0.15 + 0.85 * b / most:.2f}">'
                f"{words}</path>"
            )
    for i in range(n + 1):
        heavy = 1.6 if i % node == 0 else 0.3
        path = (
            f"M{number(x + i * cell)} {number(y)}v{SIDE}M{number(x)} {number(y + i * cell)}h{SIDE}"
        )
        out.append(f'<path d="{path}" stroke="currentColor" stroke-width="{heavy}"/>')
    return "".join(out)


def _bytes(value: float) -> str:
    return units.show(value, "byte", digits=3)
