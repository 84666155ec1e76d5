"""Schemes of the compute chapter's second half: what a window leaves of the scores, and by how much
an envelope misses.
"""

import math
from collections.abc import Sequence
from functools import partial

from mathlib.checks import InputError, positive, whole
from mathlib.show.figures import figure
from mathlib.show.kit.sheet import Sheet, number
from mathlib.show.roles import look
from mathlib.show.schemes.compute import _causal_mask
from mathlib.show.tables import Shown

Miss = tuple[str, float, float, str]  # what is missed, the least and the most, the part it is in
BAR, TICKS = 16.0, (1, 2, 5, 10, 20, 50, 100)


def window(*, tokens: int = 12, nearest: int = 4, caption: str = "", name: str = "") -> Shown:
    """The scores kept in a layer that sees all before a token, and in one that has a window."""
    s, w = whole("tokens", tokens), whole("nearest", nearest)
    kinds = (
        ("A full layer", "a token sees all before it", lambda q, k: k <= q),
        (f"A window of {w}", f"itself and {w - 1} before it", lambda q, k: 0 <= q - k < w),
    )
    sizes = {title: sum(kept(q, k) for q in range(s) for k in range(s)) for title, _, kept in kinds}
    full, near = sizes.values()
    said = caption or (
        f"Of {s * s} scores a full layer keeps {full}, one with a window of {w} tokens {near}; "
        "with longer sequences the first grows with the square of their length."
    )
    draw = partial(_causal_mask, tokens=s, kinds=kinds, sizes=sizes)
    return figure(draw, caption=said, name=name)


def misses(rows: Sequence[Miss], *, title: str, caption: str = "", name: str = "") -> Shown:
    """By which factor each part of an estimate may be off, from the least to the most."""
    for what, least, most, _ in rows:
        if positive(f"{what}: least", least) > most or least < 1:
            raise InputError(f"{what}: expected factors of 1 or more, the smaller one first")
    worst = max(rows, key=lambda row: row[2])
    said = caption or f"The largest is {worst[0]}: {_factor(worst[2])} times."
    return figure(partial(_misses, rows=rows, title=title), caption=said, name=name)


def _factor(value: float) -> str:
    return f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def _misses(width: float, rows: Sequence[Miss], title: str) -> str:
    page = Sheet(width)
    most = max(most for _, _, most, _ in rows)
    end = next((tick for tick in TICKS if tick >= most), most)
    scale = (width - 24) / math.log(end)
    y, said = page.title(title), []
    for what, least, top, role in rows:
        factors = [_factor(least), _factor(top)]
        words = factors[1] if factors[0] == factors[1] else " to ".join(factors)
        page.text(0, y + page.size, what)
        page.text(width - 2, y + page.size, words, anchor="end", bold=True)
        y += page.size + 8
        start, stop = (1 + scale * math.log(factor) for factor in (least, top))
        page.line(f"M1 {number(y + BAR / 2)}H{number(start)}", opacity=0.4)
        page.rect(start, y, max(3.0, stop - start), BAR, look(role), f"{what}: {words}")
        said.append(f"{what}: {words}")
        y += BAR + 12
    page.line(f"M1 {number(y)}H{number(width - 23)}", opacity=0.5)
    for tick in (tick for tick in TICKS if tick <= end):
        x = 1 + scale * math.log(tick)
        page.line(f"M{number(x)} {number(y)}v5", opacity=0.5)
        anchor = "start" if tick == 1 else "middle"
        page.text(x, y + 18, str(tick), anchor=anchor, size=page.small, quiet=True)
    page.text(0, y + 36, "times the envelope, or the envelope times", size=page.small, quiet=True)
    return page.svg(title, ". ".join(said) + ".")
