"""Schemes of the roofline chapter: the larger of two times, operation by operation."""

from collections.abc import Iterable
from functools import partial

from mathlib.checks import listed, positive
from mathlib.compute.roofline import Operation
from mathlib.show import says
from mathlib.show.figures import figure
from mathlib.show.kit.sheet import Sheet
from mathlib.show.roles import look
from mathlib.show.tables import Shown

KINDS = ("arithmetic", "memory traffic")
BAR = 9.0
Row = tuple[str, float, float]  # what, seconds of arithmetic, seconds of memory


def larger(
    operations: Iterable[Operation],
    *,
    peak: float,
    bandwidth: float,
    title: str,
    caption: str = "",
    name: str = "",
) -> Shown:
    """Two bars for each operation, FLOP over the peak and bytes over the bandwidth; the longer one
    is the time that it takes.
    """
    X, W = positive("peak", peak), positive("bandwidth", bandwidth)
    rows = [
        (one.name, one.times * one.flop * one.matmul / X, one.times * one.moved / W)
        for one in listed("operations", operations)
    ]
    slow = [what for what, work, traffic in rows if traffic > work]
    said = caption or f"Bound by memory: {', '.join(slow) or 'nothing'}."
    return figure(partial(_larger, rows=rows, title=title), caption=said, name=name)


def _larger(width: float, rows: list[Row], title: str) -> str:
    page = Sheet(width)
    y = page.title(title)
    y = page.legend([(kind, look(kind)) for kind in KINDS], y) + 4
    left = max(page.wide(what, page.small) for what, _, _ in rows) + 10
    room = width - left - page.wide("0.00 µs", page.small) - 14
    scale = room / max(max(work, traffic) for _, work, traffic in rows)
    for what, *times in rows:
        page.text(0, y + BAR + 4, what, size=page.small)
        for kind, spent in zip(KINDS, times, strict=True):
            hint = f"{what}, {kind}: {says.time(spent)}"
            page.rect(left, y, max(0.5, spent * scale), BAR, look(kind), hint)
            y += BAR + 1
        end = left + max(times) * scale + 6
        page.text(end, y - BAR + 4, says.time(max(times)), size=page.small, bold=True)
        y += 8
    total = says.time(sum(max(times) for _, *times in rows))
    page.text(0, y + 12, f"The longer bars together: {total}", size=page.small, quiet=True)
    return page.svg(title, _said(rows), y + 20)


def _said(rows: list[Row]) -> str:
    return (
        ". ".join(
            f"{what}: arithmetic {says.time(work)}, memory {says.time(traffic)}"
            for what, work, traffic in rows
        )
        + "."
    )
