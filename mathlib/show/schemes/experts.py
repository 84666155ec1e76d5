"""Schemes of the experts chapter: who has which experts, where tokens go and come back from, and
buffers that are too small for some.
"""

from collections.abc import Sequence
from functools import partial

from mathlib.checks import divides, whole
from mathlib.schedule import expert_load
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import ROLES, rank_look
from mathlib.show.tables import Shown

GROUPS = (
    "A row is an expert-parallel group: its ranks have all experts together, and rows of tokens "
    "travel inside it. A column has the same experts, whose gradients are summed down the column. "
    "Everything else is on every rank."
)
EXCHANGED = (
    "A cell is a token's visit, its number that of the expert, its colour the rank of the token. "
    "Dispatch brings visits to the ranks of their experts, combine brings the results home."
)
BOXES = (
    "Visits of four experts, two choices of eight tokens. With a capacity limit some rows are "
    "empty and some visits are dropped; dropless, all matrices have sizes of their own."
)
CHOSEN = ((0, 3), (1, 2), (0, 2), (3, 1), (0, 1), (2, 0), (0, 3), (1, 0))  # of 8 tokens, 2 of 4


def groups(
    ranks: int = 8, expert: int = 4, experts: int = 8, *, caption: str = GROUPS, name: str = ""
) -> Shown:
    """Which experts each rank has, and with whom it exchanges what."""
    N, E = whole("ranks", ranks), whole("experts", experts)
    P = divides("expert", expert, "ranks", N)
    divides("expert", P, "experts", E)
    return figure(partial(_groups, N=N, P=P, E=E), caption=caption, name=name)


def _groups(width: float, N: int, P: int, E: int) -> str:
    page = Canvas(width, f"{E} experts on groups of {P} of {N} ranks")
    looks = [("an expert", ROLES["mlp"]), ("router, attention, all else", ROLES["attention"])]
    page.bottom = page.legend(looks, page.bottom)
    each, wide = E // P, min(110.0, (width - 30 - 10 * P) / P)
    rows = []
    for first in range(0, N, P):
        panels = [_rank(page, first + r, range(r * each, (r + 1) * each), wide) for r in range(P)]
        rows.append((panels, page.row(*panels, gap=10, above=22)))
        page.brace(panels[0], panels[-1], "all-to-all: dispatch and combine")
        page.bottom += 14
    if N > P:
        page.note("Same column: the same experts, so their gradients are summed.", above=4)
    told = "; ".join(f"rank {r}: {_listed(r % P * each, each)}" for r in range(N))
    return page.done(f"Experts by rank. {told}")


def _listed(first: int, many: int) -> str:
    return ", ".join(map(str, range(first, first + many)))


def _rank(page: Canvas, rank: int, own: range, wide: float) -> Shape:
    """A rank with its experts, above what all have."""
    cell = wide / len(own)
    have = page.grid([["mlp"] * len(own)], cell=cell, high=26, texts=[[f"E{i}" for i in own]])
    rest = page.grid([["attention"]], cell=wide, high=12)
    return page.stacked(page.words(f"rank {rank}", small=page.narrow), have, rest, gap=3)


def placed(expert: int) -> list[list[list[tuple[int, int]]]]:
    """Where the visits of CHOSEN are: at home, sorted by expert; after dispatch; after combine. Of
    each rank, (expert, rank of the token).
    """
    P = divides("expert", expert, "experts", 4)
    each = len(CHOSEN) // P
    home = [
        sorted((e, r) for chosen in CHOSEN[r * each : (r + 1) * each] for e in chosen)
        for r in range(P)
    ]
    away = [sorted(v for mine in home for v in mine if v[0] * P // 4 == r) for r in range(P)]
    return [home, away, home]


def exchanged(expert: int = 2, *, caption: str = EXCHANGED, name: str = "") -> Shown:
    """Where visits are before dispatch, in the experts, and after combine."""
    steps = placed(expert)
    return figure(partial(_exchanged, steps=steps), caption=caption, name=name)


def _exchanged(width: float, steps: Sequence[Sequence[Sequence[tuple[int, int]]]]) -> str:
    P = len(steps[0])
    page = Canvas(width, f"Visits of eight tokens on {P} ranks")
    page.bottom = page.legend(
        [(f"tokens of rank {r}", rank_look(r, P)) for r in range(P)], page.bottom
    )
    most = max(len(mine) for step in steps for mine in step)
    cell = min(30.0, (width - 70) / most)
    heads = ("chosen, sorted by expert", "at their experts", "results at home, to be weighed")
    bars = []
    for head, step in zip(heads, steps, strict=True):
        lines = []
        for r, mine in enumerate(step):
            empty = [("", None)] * (most - len(mine))
            shown = [(str(e), rank_look(owner, P)) for e, owner in mine] + empty
            grid = page.grid(
                [[look for _, look in shown]], cell=cell, high=24, texts=[[t for t, _ in shown]]
            )
            lines.append(page.beside(page.words(f"rank {r}", small=page.narrow), grid, gap=8))
        bars.append(page.stacked(*lines, gap=6))
        page.row(page.words(head, bold=True, small=page.narrow), above=14)
        page.row(bars[-1], above=6)
        if len(bars) < len(steps):
            way = "all-to-all: dispatch" if len(bars) == 1 else "all-to-all: combine"
            page.row(page.box(way, role="communication", solid=True), above=14)
    told = "; ".join(
        f"rank {r} has {len(mine)} visits of experts {_some(mine)}"
        for r, mine in enumerate(steps[1])
    )
    return page.done(f"After dispatch {told}")


def _some(visits: Sequence[tuple[int, int]]) -> str:
    return " and ".join(str(e) for e in sorted({e for e, _ in visits}))


def boxes(capacity: float = 1.0, *, caption: str = BOXES, name: str = "") -> Shown:
    """What fits into buffers of one size, and what does not."""
    visits = [sum(e in chosen for chosen in CHOSEN) for e in range(4)]
    room = -(-int(capacity * sum(visits)) // 4)
    return figure(partial(_boxes, visits=visits, C=room), caption=caption, name=name)


def _boxes(width: float, visits: Sequence[int], C: int) -> str:
    page = Canvas(width, "Buffers of one size, or rows as they are")
    looks = [("a visit", ROLES["activations"]), ("dropped", ROLES["gradients"])]
    page.bottom = page.legend(looks, page.bottom)
    cell, wide = min(24.0, (width - 90) / max(visits)), max(C, *visits)
    for title, room in ((f"Capacity {C} rows", C), ("Dropless", 0)):
        lines = []
        for expert, n in enumerate(visits):
            kept = min(n, room) if room else n
            roles = ["activations"] * kept + [None] * (max(room, kept) - kept)
            roles += ["gradients"] * (n - kept)
            grid = page.grid([roles], cell=cell, high=20)
            rest = page.space((wide - len(roles)) * cell, 1)
            lines.append(page.beside(page.words(f"expert {expert}", small=True), grid, rest, gap=8))
        page.row(page.words(title, bold=True), above=12)
        page.row(page.stacked(*lines, gap=5), above=6)
    lost = expert_load.dropped(visits=visits, room=C)
    return page.done(f"Visits {visits}; buffers of {C} drop {lost:.0f} of {sum(visits)}")
