"""Who sends how much to whom: a square for each algorithm, a row for each sender, a column for each
receiver.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from mathlib.show import says
from mathlib.show.figures import Chart, both, figure_html
from mathlib.show.kit import letters
from mathlib.show.kit.sheet import Sheet, number, outline, place
from mathlib.show.roles import ROLES

GAP, MOST_SIDE = 22, 190
LOOK = (ROLES["communication"][0], "")
Sent = Sequence[Mapping[int, int]]  # [rank]: receiver to bytes


def links(
    sent: Mapping[str, Sent], *, node: int, title: str, caption: str = "", name: str = ""
) -> Chart:
    """`sent[name][rank]` maps a receiver to bytes; darker is more. Heavy lines part nodes of `node`
    ranks.
    """
    said = [
        f"{word}: {_total(ranks)} in all, {_across(ranks, node)}" for word, ranks in sent.items()
    ]
    told = [f"{words} between nodes" for words in said]
    draw = partial(_links, sent=sent, node=node, title=title, said=". ".join(told) + ".")
    html, words = figure_html(both(draw), caption, name), f"{title}: " + "; ".join(told)
    return Chart(html, words, title, "links", sent, node, told)


def _links(width: float, sent: Mapping[str, Sent], node: int, title: str, said: str) -> str:
    page = Sheet(width)
    most = max((b for ranks in sent.values() for row in ranks for b in row.values()), default=0)
    y = page.title(title) + 4
    columns = min(len(sent), 2) if page.narrow else (len(sent) if len(sent) < 5 else 3)
    pitch = width / columns
    side = min(pitch - 20 - GAP, MOST_SIDE)
    low = y
    for turn, (name, ranks) in enumerate(sent.items()):
        column = turn % columns
        y = low if not column else y
        x = column * pitch + 20
        page.text(x, y + page.size, name, bold=True)
        _square(page, (x, y + 24), side, name, ranks, most)
        _grid(page, (x, y + 24), side, len(ranks), node)
        words = f"{_across(ranks, node)} of {_total(ranks)} between nodes"
        under = y + 24 + side + 4
        for line in letters.lines(words, pitch - 24, page.small):
            under += page.small + 3
            page.text(x, under, line, size=page.small, quiet=True)
        low = max(low, under + 16)
    return page.svg(title, said)


def _total(ranks: Sent) -> str:
    """All bytes, in words."""
    return says.size(sum(sum(row.values()) for row in ranks))


def between_nodes(ranks: Sent, node: int) -> int:
    """Those of them that leave a node."""
    return sum(b for r, row in enumerate(ranks) for to, b in row.items() if r // node != to // node)


def _across(ranks: Sent, node: int) -> str:
    return says.size(between_nodes(ranks, node))


def _square(
    page: Sheet, corner: tuple[float, float], side: float, name: str, ranks: Sent, most: int
) -> None:
    """A cell for each pair that speaks, the darker the more, with the numbers as a tooltip."""
    (x, y), cell = corner, side / len(ranks)
    for r, row in enumerate(ranks):
        if cell >= page.small or r % 2 == 0:
            high = y + cell * (r + 0.5) + 4.5
            page.text(x - 5, high, str(r), anchor="end", size=page.small, quiet=True)
        for to, b in sorted(row.items()):
            hint = f"{name}: rank {r} sends {says.size(b)} to rank {to}"
            hint = "" if page.narrow else hint  # nothing hovers over a phone
            path = outline(x + to * cell, y + r * cell, cell, cell)
            page.area(path, LOOK, min(0.999, 0.15 + 0.85 * b / (most or 1)), hint)


def _grid(page: Sheet, corner: tuple[float, float], side: float, n: int, node: int) -> None:
    """Lines between the cells, heavy where a node ends."""
    (x, y), cell = corner, side / n
    for i in range(n + 1):
        down = f"M{place(x + i * cell, y)}v{number(side)}"
        along = f"M{place(x, y + i * cell)}h{number(side)}"
        page.line(down + along, width=1.5 if i % node == 0 else 0.4, opacity=0.7)
