"""A small directed graph as a picture: every node below all that lead to it."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import fsum, hypot

from mathlib.checks import InputError
from mathlib.show.figures import both, figure_html
from mathlib.show.kit.shapes import NEUTRAL
from mathlib.show.kit.sheet import Sheet, place
from mathlib.show.roles import ROLES
from mathlib.show.tables import Shown

BOX, GAP, STEP = 26, 8, 54
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
        at = {n: i / len(above) for i, n in enumerate(above)}
        parents = {n: [at[a] for a, b in edges if b == n and a in at] for n in row}
        row.sort(key=lambda n: fsum(parents[n]) / len(parents[n]) if parents[n] else 1.0)
    return rows


Box = tuple[float, float, float, float]  # left, top, width, height


def _lines(label: str, note: str) -> list[str]:
    """What stands in a box: its label, and a note in one line or, at its commas, in several."""
    return [label, *(note.split(", ") if note else [])]


def _placed(page: Sheet, rows: Sequence[Sequence[int]], lines: Mapping[int, list[str]], top: float):
    """Where each box stands: as wide as its words, a layer's free space shared out evenly."""
    at: dict[int, Box] = {}
    for row in rows:
        high = 10 + 17.0 * max(len(lines[n]) for n in row)
        wide = [max(page.wide(line, page.small) for line in lines[n]) + 16 for n in row]
        free = (page.width - fsum(wide)) / (len(row) + 1)
        x = max(free, 1)
        for n, w in zip(row, wide, strict=True):
            at[n] = (x, top, w, 10 + 17.0 * len(lines[n]))
            x += w + max(free, 4)
        top += high + STEP - BOX
    return at


def _arrow(page: Sheet, above: Box, below: Box) -> None:
    """From the foot of a box to the head of one below it."""
    (xa, ya, wa, ha), (xb, yb, wb, _) = above, below
    start, tip = (xa + wa / 2, ya + ha), (xb + wb / 2, yb)
    dx, dy = tip[0] - start[0], tip[1] - start[1]
    dx, dy = 6 * dx / hypot(dx, dy), 6 * dy / hypot(dx, dy)
    left, right = (
        (tip[0] - dx - side * dy * 0.55, tip[1] - dy + side * dx * 0.55) for side in (1, -1)
    )
    path = f"M{place(*start)}L{place(*tip)}M{place(*left)}L{place(*tip)}L{place(*right)}"
    page.line(path, opacity=0.6)


def drawing(
    labels: Mapping[int, str],
    edges: Sequence[tuple[int, int]],
    *,
    title: str,
    marked: Mapping[int, str] | None = None,
    notes: Mapping[int, str] | None = None,
    caption: str = "",
    name: str = "",
) -> str:
    """The graph in two widths.  `marked` colours nodes by a role of roles.ROLES, `notes` writes
    more lines into them, parted by commas.
    """
    if len(labels) > MOST:
        raise InputError(
            f"labels = {len(labels)} nodes: expected at most {MOST}, more cannot be read"
        )
    draw = partial(
        _drawing, labels=labels, edges=edges, title=title, marked=marked or {}, notes=notes or {}
    )
    return figure_html(both(draw), caption, name)


def _drawing(
    width: float,
    labels: Mapping[int, str],
    edges: Sequence[tuple[int, int]],
    title: str,
    marked: Mapping[int, str],
    notes: Mapping[int, str],
) -> str:
    page = Sheet(width)
    lines = {n: _lines(label, notes.get(n, "")) for n, label in labels.items()}
    at = _placed(page, layers(list(labels), edges), lines, page.title(title))
    for a, b in edges:
        _arrow(page, at[a], at[b])
    for n, (x, y, w, h) in at.items():
        look = ROLES[marked[n]] if n in marked else NEUTRAL
        page.rect(x, y, w, h, look, radius=5, tint=True, hatched=False)
        for i, line in enumerate(lines[n]):
            page.text(
                x + w / 2,
                y + 17 + 17 * i,
                line,
                anchor="middle",
                size=page.small,
                bold=not i and len(lines[n]) > 1,
            )
    said = "; ".join(f"{labels[a]} leads to {labels[b]}" for a, b in edges)
    return page.svg(title, said + ".")


def graph(
    nodes: Sequence[tuple[int, str]],
    edges: Sequence[tuple[int, int]],
    *,
    title: str,
    marked: Mapping[int, str] | None = None,
    caption: str = "",
    name: str = "",
) -> Shown:
    """A picture of nodes (number, label) and edges between numbers."""
    labels = dict(nodes)
    words = ", ".join(f"{labels[a]} -> {labels[b]}" for a, b in edges)
    drawn = drawing(labels, edges, title=title, marked=marked, caption=caption, name=name)
    return Shown(drawn, f"{title}: {words}")
