"""A small directed graph as a picture: every node below all that lead to it."""

from collections.abc import Mapping, Sequence

from mathlib.checks import InputError
from mathlib.show import svg
from mathlib.show.roles import ROLES
from mathlib.show.tables import Shown

BOX, GAP, STEP = 24, 10, 50
MOST = 40  # more boxes than this are no picture


def layers(nodes: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Nodes by the longest way that leads to them, each layer ordered by where its parents
    stand.
    """
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for a, b in edges:
            depth[b] = max(depth[b], depth[a] + 1)
    rows: list[list[int]] = [
        [n for n in nodes if depth[n] == level] for level in range(1 + max(depth.values()))
    ]
    for above, row in zip(rows, rows[1:], strict=False):
        place = {n: i / len(above) for i, n in enumerate(above)}
        parents = {n: [place[a] for a, b in edges if b == n and a in place] for n in row}
        row.sort(key=lambda n: sum(parents[n]) / len(parents[n]) if parents[n] else 1.0)
    return rows


Box = tuple[float, float, float]  # left, top, width


def _placed(
    rows: Sequence[Sequence[int]], labels: Mapping[int, str], notes: Mapping[int, str], step: float
) -> dict[int, Box]:
    """Where each box stands: as wide as its words, a layer's free space shared out evenly."""
    at: dict[int, Box] = {}
    for level, row in enumerate(rows):
        wide = [7.6 * max(len(labels[n]), len(notes.get(n, ""))) + 14 for n in row]
        free = (svg.WIDTH - sum(wide)) / (len(row) + 1)
        x = free
        for n, w in zip(row, wide, strict=True):
            at[n] = (x, level * step + 2, w)
            x += w + free
    return at


def _arrow(above: Box, below: Box, high: float) -> str:
    (xa, ya, wa), (xb, yb, wb) = above, below
    path = f"M{xa + wa / 2:.1f} {ya + high:.1f}L{xb + wb / 2:.1f} {yb:.1f}"
    return f'<path d="{path}" stroke="currentColor" stroke-opacity=".6" fill="none"/>'


def _node(place: Box, high: float, colour: str, label: str, note: str) -> str:
    x, y, w = place
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{high}" rx="4" fill="{colour}" '
        f'fill-opacity=".35" stroke="currentColor"/>'
    )
    box += svg.text(x + w / 2, y + 16, label, anchor="middle", size=svg.SMALL)
    if note:
        box += svg.text(x + w / 2, y + 32, note, anchor="middle", size=svg.SMALL)
    return box


def drawing(
    labels: Mapping[int, str],
    edges: Sequence[tuple[int, int]],
    *,
    title: str,
    marked: Mapping[int, str] | None = None,
    notes: Mapping[int, str] | None = None,
) -> str:
    """The graph as SVG.  `marked` colours nodes by a role of roles.ROLES, `notes` writes a second
    line into them.
    """
    if len(labels) > MOST:
        raise InputError(
            f"labels = {len(labels)} nodes: expected at most {MOST}, more cannot be read"
        )
    marked, notes = marked or {}, notes or {}
    high = BOX + 16 if notes else BOX
    step = STEP + high - BOX
    rows = layers(list(labels), edges)
    at = _placed(rows, labels, notes, step)
    out = [_arrow(at[a], at[b], high) for a, b in edges]
    for n, place in at.items():
        colour = ROLES[marked[n]][0] if n in marked else "none"
        out.append(_node(place, high, colour, labels[n], notes.get(n, "")))
    said = "; ".join(f"{labels[a]} leads to {labels[b]}" for a, b in edges)
    return svg.drawing(len(rows) * step + 2, title, said + ".", "".join(out))


def graph(
    nodes: Sequence[tuple[int, str]], edges: Sequence[tuple[int, int]], *, title: str
) -> Shown:
    """A picture of nodes (number, label) and edges between numbers."""
    labels = dict(nodes)
    words = ", ".join(f"{labels[a]} -> {labels[b]}" for a, b in edges)
    return Shown(f"<figure>{drawing(labels, edges, title=title)}</figure>", f"{title}: {words}")
