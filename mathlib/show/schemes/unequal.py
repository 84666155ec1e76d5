"""Schemes of the unequal chapter: the team's two nodes, and shares by speed beside equal ones."""

from collections.abc import Sequence
from functools import partial

from mathlib.checks import listed, positive, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas
from mathlib.show.roles import ROLES
from mathlib.show.tables import Shown

TEAM = (
    "The team's cluster: eight old GPUs, eight new ones of which one runs hot, and a slow port "
    "through which all pass that leaves the old node."
)
LIVES = (
    "A box is a step, in the order of the run. A death throws the run back to its last checkpoint; "
    "what was computed since then is computed again, with the same losses."
)
SHARES = (
    "A step of four ranks, of which two have half the speed. A box is one sequence. With equal "
    "shares the new ranks wait half of the time; with shares by speed nobody waits."
)


def team(*, caption: str = TEAM, name: str = "") -> Shown:
    """Two nodes of eight, their ports, and the hot GPU."""
    return figure(_team, caption=caption, name=name)


def _team(width: float) -> str:
    page = Canvas(width, "Two nodes of eight GPUs")
    looks = [("old", ROLES["backward"]), ("new", ROLES["forward"]), ("hot", ROLES["gradients"])]
    page.bottom = page.legend(looks, page.bottom)
    cell = min(36.0, (width - 60) / 16 if not page.narrow else (width - 20) / 8)
    kinds = (["backward"] * 8, ["forward"] * 3 + ["gradients"] + ["forward"] * 4)
    nodes = []
    for node, roles in enumerate(kinds):
        numbers = [str(8 * node + i) for i in range(8)]
        grid = page.grid([roles], cell=cell, high=26, texts=[numbers])
        title = page.words(f"node {node}", small=page.narrow)
        port = page.box("port, slow" if node == 0 else "port", role="communication")
        nodes.append(page.stacked(title, grid, port, gap=6))
    if page.narrow:
        for one in nodes:
            page.row(one, above=10)
    else:
        page.row(*nodes, gap=40, above=10)
    return page.done("Ranks 0 to 7 are old, 8 to 15 new, rank 11 is hot, node 0's port is slow")


def by_speed(
    equal: Sequence[int] = (3, 3, 3, 3),
    shared: Sequence[int] = (2, 2, 4, 4),
    speeds: Sequence[float] = (0.5, 0.5, 1, 1),
    *,
    caption: str = SHARES,
    name: str = "",
) -> Shown:
    """When each rank computes its sequences, and when it waits."""
    rows = [[whole("counts", n) for n in listed("counts", one)] for one in (equal, shared)]
    rates = [positive("speeds", one) for one in listed("speeds", speeds)]
    return figure(partial(_by_speed, rows=rows, rates=rates), caption=caption, name=name)


def _by_speed(width: float, rows: Sequence[Sequence[int]], rates: Sequence[float]) -> str:
    page = Canvas(width, "Equal shares, and shares by speed")
    looks = [("computes a sequence", ROLES["forward"]), ("waits", ROLES["idle"])]
    page.bottom = page.legend(looks, page.bottom)
    longest = max(n / v for row in rows for n, v in zip(row, rates, strict=True))
    unit, told = min(60.0, (width - 80) / longest), []
    for title, counts in zip(("equal shares", "by speed"), rows, strict=True):
        end = max(n / v for n, v in zip(counts, rates, strict=True))
        lines = []
        for rank, (n, v) in enumerate(zip(counts, rates, strict=True)):
            work = page.grid([["forward"] * n], cell=unit / v, high=18)
            parts = [page.words(f"rank {rank}", small=True), work]
            if end > n / v:
                parts.append(page.grid([["idle"]], cell=unit * (end - n / v), high=18))
            rest = (longest - end) * unit
            parts += [page.space(rest, 1)] if rest else []
            lines.append(page.beside(*parts, gap=0))
        page.row(page.words(f"{title}: {end:g} times a sequence", bold=True), above=12)
        page.row(page.stacked(*lines, gap=5), above=6)
        told.append(f"{title}, {end:g}")
    return page.done("A step takes, in times of a sequence: " + "; ".join(told))


def lives(
    spans: Sequence[tuple[int, int]], steps: int, *, caption: str = LIVES, name: str = ""
) -> Shown:
    """What each life of the ranks computed, and what of it the next one computes again."""
    last = whole("steps", steps)
    rows = [(whole("spans", a, least=0), whole("spans", b, least=0)) for a, b in spans]
    return figure(partial(_lives, rows=rows, steps=last), caption=caption, name=name)


def _lives(width: float, rows: Sequence[tuple[int, int]], steps: int) -> str:
    page = Canvas(width, "Lives of a run that is killed")
    looks = [("computed", ROLES["forward"]), ("lost by the death", ROLES["gradients"])]
    page.bottom = page.legend(looks, page.bottom)
    cell, lines, lost = min(48.0, (width - 70) / steps), [], 0
    for life, (begin, end) in enumerate(rows):
        keeps = rows[life + 1][0] if life + 1 < len(rows) else end
        lost += end - keeps
        roles = [None] * begin + ["forward"] * (keeps - begin)
        roles += ["gradients"] * (end - keeps) + [None] * (steps - end)
        texts = ["" if role is None else str(i + 1) for i, role in enumerate(roles)]
        grid = page.grid([roles], cell=cell, high=22, texts=[texts])
        lines.append(page.beside(page.words(f"life {life + 1}", small=page.narrow), grid, gap=8))
    page.row(page.stacked(*lines, gap=6), above=10)
    return page.done(f"{len(rows)} lives of {steps} steps; {lost} steps are lost")
