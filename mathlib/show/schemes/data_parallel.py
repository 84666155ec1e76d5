"""Schemes of the data-parallel chapter: replicas, bytes, versions, accumulation."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from mathlib.checks import whole
from mathlib.show import svg
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.sheet import place
from mathlib.show.roles import ROLES, looks, rank_look
from mathlib.show.tables import Shown

REPLICAS = (
    "The weights are equal on all ranks, the data are not: only gradients have to meet, and "
    "afterwards all ranks take the same step."
)
VERSIONS = (
    "A sketch: many all-reduces pay latency, late ones waste time; buckets that leave at once do "
    "little of either."
)
NO_SYNC = (
    "With no_sync the gradients of several micro-batches are added up and sent once, so that a "
    "rank waits once."
)


def replicas(ranks: int = 4, *, caption: str = REPLICAS, name: str = "") -> Shown:
    """A batch cut into slices, a replica for each, and the one thing that is exchanged."""
    draw = partial(_replicas, ranks=whole("ranks", ranks, least=2))
    return figure(draw, caption=caption, name=name)


def _replicas(width: float, ranks: int) -> str:
    page = Canvas(width, "One batch, many replicas")
    gap = 10.0 if page.narrow else 18.0
    wide = min(150.0, (width - 8 - gap * (ranks - 1)) / ranks)
    whole_wide = wide * ranks + gap * (ranks - 1)
    batch = page.strip(
        [(f"the batch, cut into {ranks} slices", 1, "activations")], wide=whole_wide, high=30
    )
    page.row(batch, above=8)

    def line(text: str, role: str, **options: Any) -> list[Shape]:
        boxes = [page.box(text, role=role, wide=wide, **options) for _ in range(ranks)]
        page.row(*boxes, gap=gap, above=26)
        return boxes

    slices = [
        page.box(f"rank {r}", role=rank_look(r, ranks), solid=True, wide=wide) for r in range(ranks)
    ]
    page.row(*slices, gap=gap, above=26)
    weights = line("weights", "weights")
    gradients = line("gradients", "gradients")
    exchange = page.box("all-reduce: the mean", role="communication", solid=True, wide=whole_wide)
    page.row(exchange, above=26)
    means = line("mean", "gradients", solid=True)
    updates = line("update", "optimizer")
    for above, below in ((slices, weights), (weights, gradients), (means, updates)):
        for one, other in zip(above, below, strict=True):
            page.arrow(one, other)
    for one in slices:
        page.drop(batch, one)
    for one, other in zip(gradients, means, strict=True):
        page.drop(one, exchange)
        page.drop(exchange, other)
    return page.done(
        f"{ranks} ranks with equal weights, each with its slice of the batch, find gradients of "
        "their own, take the mean of all, and update alike"
    )


LANES = {  # lengths as drawn, of a backward of 4
    "Version 1: each tensor, after backward": [(4 + 0.9 * i, 0.8) for i in range(8)],
    "Version 2: all in one, after backward": [(4.0, 4.0)],
    "Version 3: each tensor, at once": [(0.5 + 0.9 * i, 0.8) for i in range(8)],
    "Version 4: buckets, at once": [(1 + 1.15 * i, 1.1) for i in range(4)],
}


def four_versions(*, caption: str = VERSIONS, name: str = "") -> Shown:
    """DDP's four versions: few all-reduces or many, after backward or beside it."""
    return figure(_four_versions, caption=caption, name=name)


def _four_versions(width: float) -> str:
    page = Canvas(width, "Backward, and the all-reduces of its gradients")
    backward = [("backward", 0.0, 4.0, "backward")]
    for title, sent in LANES.items():
        wire = [("communication", at, at + long, "all-reduce") for at, long in sent]
        page.text(0, page.bottom + 22, title, bold=True)
        top = page.bottom + 12
        left, scale = _lanes(page, [("backward", backward), ("wire", wire)], top, 11.2)
        at, words = left + scale * sum(sent[-1]), "step ends"
        page.line(f"M{place(at, top - 3)}v52", dash="2 3", width=1.6)
        beside = at + 5 if at + 5 + page.wide(words, page.small) < width else at - 5
        anchor = "start" if beside > at else "end"
        page.text(beside, top + 16, words, anchor=anchor, size=page.small)
    return page.done("Four ways to send: only buckets that leave at once are few and early")


def accumulation(micro_batches: int = 4, *, caption: str = NO_SYNC, name: str = "") -> Shown:
    """Accumulation over micro-batches with an all-reduce after each, and with a single one."""
    draw = partial(_accumulation, n=whole("micro_batches", micro_batches, least=2))
    return figure(draw, caption=caption, name=name)


FORWARD, BACKWARD, WIRE = 1.0, 2.0, 1.6  # lengths as drawn: backward does twice the work
EARLY = 0.6  # so much of an all-reduce is behind backward


def _accumulating(n: int, which: Sequence[int]) -> list[svg.Line]:
    """A rank and its wire: after each micro-batch of `which` it sends, and waits for that."""
    rank: list[tuple[str, float, float, str]] = []
    wire: list[tuple[str, float, float, str]] = []
    now = 0.0
    for i in range(n):
        turn, end = now + FORWARD, now + FORWARD + BACKWARD
        rank.append(("forward", now, turn, f"forward of micro-batch {i}"))
        rank.append(("backward", turn, end, f"backward of micro-batch {i}"))
        now = end
        if i in which:
            now += WIRE - EARLY
            wire.append(("communication", end - EARLY, now, f"all-reduce after micro-batch {i}"))
            rank.append(("idle", end, now, "waits"))
    return [("rank", rank), ("wire", wire)]


def _accumulation(width: float, n: int) -> str:
    page = Canvas(width, "Gradients of several micro-batches")
    styles = looks(["forward", "backward", "communication", "idle"])
    page.bottom = page.legend(list(styles.items()), page.bottom)
    end = n * (FORWARD + BACKWARD + WIRE - EARLY)
    for title, which in (("An all-reduce each", range(n)), ("no_sync: one all-reduce", [n - 1])):
        page.text(0, page.bottom + 20, title, bold=True)
        top, lines = page.bottom + 14, _accumulating(n, list(which))
        left, scale = _lanes(page, lines, top, end)
        at = left + scale * lines[1][1][-1][2]
        page.line(f"M{place(at, top - 3)}v52", dash="2 3", width=1.6)
        page.text(at - 5, top - 6, "step ends", anchor="end", size=page.small)
    return page.done(
        f"With {n} micro-batches: {n} all-reduces and as many waits, or one after the last backward"
    )


def _lanes(
    page: Canvas, lines: Sequence[svg.Line], y: float, end: float
) -> tuple[float, float]:  # where they begin, and how long a unit of time is
    left = max(page.wide(label) for label, _ in lines) + 12
    scale = (page.width - left - 4) / end
    for label, events in lines:
        page.text(0, y + 17, label, size=page.small, quiet=True)
        for role, a, b, what in events:
            page.rect(left + a * scale, y, (b - a) * scale, 22, ROLES[role], what)
        y += 26
    return left, scale
