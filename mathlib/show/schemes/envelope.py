"""Schemes of the compute chapter's second half and of its trial: what a token meets in today's
layers, and by how much an estimate misses.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mathlib.checks import InputError, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas
from mathlib.show.kit.sheet import Sheet, number
from mathlib.show.roles import Look, look
from mathlib.show.tables import Shown

Miss = tuple[str, *tuple[float, ...]]  # what is missed, and the factors that were met
KINDS = ("predicted", "other", "measured")  # looks of the groups, in their order
BAR, TICKS = 16.0, (0.8, 1, 2, 5, 10, 20, 50, 100)
DOT = "M0-3.2a3.2 3.2 0 1 1 0 6.4a3.2 3.2 0 1 1 0-6.4z"


def meets(
    *,
    heads: int = 8,
    kv_heads: int = 2,
    experts: int = 8,
    active: int = 2,
    caption: str = "",
    name: str = "",
) -> Shown:
    """Grouped-query attention: several queries to a key; and experts: a token visits a few."""
    a, k = whole("heads", heads), whole("kv_heads", kv_heads)
    held, used = whole("experts", experts), whole("active", active)
    if a % k or used > held:
        raise InputError(f"kv_heads = {k}, active = {used}: expected parts of {a} and of {held}")
    said = caption or (
        f"{a} query heads share {k} key-value heads, so the layer holds fewer weights; of {held} "
        f"experts a token meets {used}, fewer than the layer holds."
    )
    draw = partial(_meets, heads=a, kv_heads=k, experts=held, active=used)
    return figure(draw, caption=said, name=name)


def _meets(width: float, heads: int, kv_heads: int, experts: int, active: int) -> str:
    page = Canvas(width, "What a layer holds, and what a token meets")
    wide = min(320.0, width - 8)
    queries = page.strip([("q", 1, "query")] * heads, wide=wide)
    shared = page.strip([("k, v", 1, "key")] * kv_heads, wide=wide)
    chosen = [(experts // (active + 1)) * (i + 1) for i in range(active)]
    held = page.grid(
        [["mlp" if number in chosen else None for number in range(experts)]],
        cell=wide / experts,
        high=28,
        texts=[[str(number + 1) for number in range(experts)]],
    )
    each = heads // kv_heads
    page.flow(
        page.panel(
            "Grouped-query attention",
            page.stacked(queries, shared, gap=2),
            note=f"{each} queries share a key and a value; each meets all tokens",
        ),
        page.panel(
            "Experts",
            page.stacked(page.strip([("router", 1, "router")], wide=wide), held, gap=2),
            note=f"the router picks {active} of {experts} for each token",
        ),
    )
    return page.done(
        f"{heads} query heads above {kv_heads} heads of keys and values. A router above {experts} "
        f"experts, of which {active} are filled"
    )


def misses(
    groups: Mapping[str, Sequence[Miss]],
    *,
    title: str,
    caption: str = "",
    name: str = "",
) -> Shown:
    """By which factor each part of an estimate may be off, a dot for each that was met, in up to
    three kinds under their headings.
    """
    rows = [row for group in groups.values() for row in group]
    for what, *factors in rows:
        if not factors or min(factors) < TICKS[0]:
            raise InputError(f"{what}: {factors!r}: expected factors from {TICKS[0]} on")
    worst = max(rows, key=lambda row: max(row[1:]))
    said = caption or f"The largest is {worst[0]}: {_factor(max(worst[1:]))} times."
    return figure(partial(_misses, groups=groups, title=title), caption=said, name=name)


def _factor(value: float) -> str:
    return f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def _misses(width: float, groups: Mapping[str, Sequence[Miss]], title: str) -> str:
    page = Sheet(width)
    factors = [factor for group in groups.values() for _, *met in group for factor in met]
    end = next((tick for tick in TICKS if tick >= max(factors)), max(factors))
    begin = 1 if min(factors) >= 1 else TICKS[0]
    scale = (width - 24) / math.log(end / begin)

    def at(factor: float) -> float:
        return 1 + scale * math.log(factor / begin)

    y, said = page.title(title), []
    top = y + page.size
    for (heading, rows), kind in zip(groups.items(), KINDS, strict=False):
        page.text(0, y + page.size + 4, heading, bold=True)
        y += page.size + 12
        said.append(heading)
        for row in rows:
            words = _range(min(row[1:]), max(row[1:]))
            page.text(0, y + page.size, row[0])
            page.text(page.width - 2, y + page.size, words, anchor="end", bold=True)
            _dots(page, y + page.size + 7, row, at, look(kind))
            said.append(f"{row[0]}: {words}")
            y += page.size + BAR + 18
    _scale(page, y, at, end)
    for tick in (tick for tick in TICKS if begin <= tick <= end):
        page.line(f"M{number(at(tick))} {number(top)}V{number(y)}", opacity=0.12)
    return page.svg(title, ". ".join(said) + ".")


def _range(least: float, most: float) -> str:
    """One factor, or the two ends."""
    factors = _factor(least), _factor(most)
    return factors[1] if factors[0] == factors[1] else " to ".join(factors)


def _dots(page: Sheet, y: float, row: Miss, at: Callable[[float], float], style: Look) -> None:
    """Each factor on a line that begins at 1."""
    _, *factors = row
    ends = at(min(1, *factors)), at(max(factors))
    page.line(f"M{number(ends[0])} {number(y + BAR / 2)}H{number(ends[1])}", opacity=0.4)
    page.line(f"M{number(at(1))} {number(y)}v{number(BAR)}", opacity=0.5)
    for factor in factors:
        page.mark(at(factor), y + BAR / 2, DOT, style[0], _factor(factor))


def _scale(page: Sheet, y: float, at: Callable[[float], float], end: float) -> None:
    """The axis of the factors."""
    page.line(f"M1 {number(y)}H{number(page.width - 23)}", opacity=0.5)
    for tick in (tick for tick in TICKS if tick <= end and at(tick) > 0):
        x = at(tick)
        page.line(f"M{number(x)} {number(y)}v5", opacity=0.5)
        anchor = "start" if x == 1 else "middle"
        page.text(x, y + 18, str(tick), anchor=anchor, size=page.small, quiet=True)
    page.text(0, y + 36, "a factor, drawn on a logarithmic scale", size=page.small, quiet=True)
