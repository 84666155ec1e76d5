"""Schemes of the sequences chapter: whose keys a rank meets when, and who computes which scores.

N ranks · a heads
"""

from collections.abc import Mapping, Sequence
from functools import partial

from mathlib.checks import divides, whole
from mathlib.schedule import ring_order, ring_time
from mathlib.schedule.ring_time import Block
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas
from mathlib.show.kit.sheet import Sheet, ink
from mathlib.show.roles import ROLES, rank_look
from mathlib.show.tables import Shown

PASSED = (
    "A rank's queries stay. Keys and values move to the next rank after every step, so each rank "
    "meets all of them, its own first."
)
SQUARE = (
    "A row of the square is a chunk of queries, a column a chunk of keys. The colour says which "
    "rank computes a block, the number in which step. Half of each block on the diagonal is hidden."
)
CLOCK = (
    "The same blocks by the clock; the number says whose keys they are. In the plain order the "
    "last rank has every step to do, in zigzag all ranks have the same."
)
EXCHANGED = (
    "Before attention a rank has all heads of its tokens, in attention all tokens of its heads."
)
NAMES = {"plain": "Plain order", "zigzag": "Zigzag"}
LANE, GAP = 24, 6  # heights: of boxes, between ranks


def passed(ranks: int = 4, *, caption: str = PASSED, name: str = "") -> Shown:
    """Whose keys and values each rank has in each step."""
    return figure(partial(_passed, N=whole("ranks", ranks, least=2)), caption=caption, name=name)


def _passed(width: float, N: int) -> str:
    page = Canvas(width, f"Keys and values go round {N} ranks")
    cell = min(64.0, (width - 80) / N)
    heads = [page.words(f"rank {r}", small=page.narrow) for r in range(N)]
    page.row(page.words("", small=True), *_columns(page, heads, cell), gap=0, above=8)
    for step in range(N):
        sources = [(r - step) % N for r in range(N)]
        cells = page.grid(
            [[rank_look(s, N) for s in sources]],
            cell=cell,
            high=26,
            texts=[[f"K{s}, V{s}" for s in sources]],
        )
        page.row(page.words(f"step {step}", small=True), cells, gap=10, above=6)
    told = "; ".join(
        f"step {step}: " + ", ".join(f"rank {r} has {(r - step) % N}" for r in range(N))
        for step in range(N)
    )
    return page.done(f"Keys and values by rank. {told}")


def _columns(page: Canvas, heads: Sequence, cell: float) -> list:
    """Words in the middle of columns, right of the names of rows."""
    left = page.wide("step 0", page.small) + 10
    row = [page.space(left, 1)]
    for head in heads:
        side = max(0.0, (cell - head.wide) / 2)
        row += [page.space(side, 1), head, page.space(side, 1)]
    return row


def square(ranks: int = 4, *, caption: str = SQUARE, name: str = "") -> Shown:
    """The causal square of scores, in both orders: who computes a block, and in which step."""
    N = whole("ranks", ranks, least=2)
    return figure(partial(_square, N=N), caption=caption, name=name)


def owners(order: str, ranks: int) -> list[int]:
    """The rank of each chunk of the sequence, of which a rank has one, or two in zigzag."""
    N = whole("ranks", ranks)
    held = {
        place: r
        for r in range(N)
        for span in ring_order.places(order, ranks=N, rank=r, tokens=2 * N)
        for place in span
    }
    return [held[place] for place in range(0, 2 * N, 2 if order == "plain" else 1)]


def _square(width: float, N: int) -> str:
    page = Canvas(width, "Who computes which scores, and when")
    page.bottom = page.legend([(f"rank {r}", rank_look(r, N)) for r in range(N)], page.bottom)
    side = min(232.0, width / 2 - 16 if not page.narrow else width - 30)
    panels, told = [], []
    for order, title in NAMES.items():
        mine = owners(order, N)
        n = len(mine)
        cells = [[rank_look(mine[q], N) if k <= q else None for k in range(n)] for q in range(n)]
        steps = [
            [str((mine[q] - mine[k]) % N) if k <= q else "" for k in range(n)] for q in range(n)
        ]
        panels.append(page.panel(title, page.grid(cells, cell=side / n, texts=steps)))
        counts = [sum(q + 0.5 for q in range(n) if mine[q] == r) for r in range(N)]
        told.append(
            f"{title}: " + ", ".join(f"rank {r} {c:g} blocks" for r, c in enumerate(counts))
        )
    page.flow(*panels, gap=16, above=12)
    return page.done("; ".join(told))


def clock(ranks: int = 4, message: float = 0.0, *, caption: str = CLOCK, name: str = "") -> Shown:
    """When each rank computes which block, in both orders, on one scale."""
    N = whole("ranks", ranks, least=2)
    lines = {
        title: ring_time.timeline(order, ranks=N, tokens=2000 * N, message=message)
        for order, title in NAMES.items()
    }
    told = "; ".join(f"{title}: {_told(rows)}" for title, rows in lines.items())
    return figure(partial(_clock, lines=lines, told=told), caption=caption, name=name, words=told)


def _work(row: Sequence[Block]) -> float:
    return sum(block.seconds for block in row)


def _told(rows: Sequence[Sequence[Block]]) -> str:
    blocks = ", ".join(f"{_work(row):.1f}" for row in rows)
    return f"rank by rank {blocks} blocks, done after {_end(rows):.1f}"


def _end(rows: Sequence[Sequence[Block]]) -> float:
    return max(row[-1].begin + row[-1].seconds for row in rows)


def _clock(width: float, lines: Mapping[str, Sequence[Sequence[Block]]], told: str) -> str:
    page = Sheet(width)
    y = page.title("Attention, forward: blocks on the clock")
    N = len(next(iter(lines.values())))
    keys = [(f"keys of rank {r}" if not r else str(r), rank_look(r, N)) for r in range(N)]
    y = page.legend([*keys, ("idle", ROLES["idle"])], y)
    left = page.wide("rank 0") + 8
    unit = (width - left - 2) / max(map(_end, lines.values()))
    for title, rows in lines.items():
        page.text(0, y + page.size + 2, title, bold=True)
        y += page.size + 10
        for r, row in enumerate(rows):
            page.text(0, y + LANE / 2 + 5, f"rank {r}")
            _lane(page, row, y, left, unit, _end(rows), N)
            y += LANE + GAP
        y += 4
    return page.svg("Blocks on the clock", told, y + 2)


def _lane(
    page: Sheet, row: Sequence[Block], y: float, left: float, unit: float, end: float, N: int
) -> None:
    """A rank's blocks, and where it has none."""
    page.rect(left, y, end * unit, LANE, ROLES["idle"], "idle")
    for block in row:
        x, wide, word = left + block.begin * unit, block.seconds * unit, str(block.source)
        if not wide:
            continue
        look = rank_look(block.source, N)
        page.rect(x, y, wide, LANE, look, f"keys of rank {block.source}")
        if page.wide(word, page.small) <= wide - 1:
            page.text(
                x + wide / 2,
                y + LANE / 2 + 4.5,
                word,
                anchor="middle",
                size=page.small,
                colour=ink(look[0]),
            )


def exchanged(ranks: int = 4, heads: int = 8, *, caption: str = EXCHANGED, name: str = "") -> Shown:
    """Who has which tokens of which heads, between blocks and in attention under Ulysses."""
    N = divides("ranks", ranks, "heads", whole("heads", heads))
    return figure(partial(_exchanged, N=N, a=heads), caption=caption, name=name)


def _exchanged(width: float, N: int, a: int) -> str:
    page = Canvas(width, "An all-to-all exchanges tokens for heads")
    page.bottom = page.legend([(f"rank {r}", rank_look(r, N)) for r in range(N)], page.bottom)
    cell = min(26.0, (width - 60) / a if page.narrow else (width / 2 - 90) / a)
    before = [[rank_look(r, N) for _ in range(a)] for r in range(N)]
    after = [[rank_look(c * N // a, N) for c in range(a)] for _ in range(N)]
    tokens = f"down: {N} chunks of tokens, across: {a} heads"
    panels = [
        page.panel(title, page.grid(cells, cell=cell, high=26))
        for title, cells in (("Between attention layers", before), ("In attention", after))
    ]
    if page.narrow:
        page.column(*panels, gap=34, above=12)
    else:
        page.row(*panels, gap=120, above=12)
    one, two = (page.last(panel) for panel in panels)
    page.arrow(one, two, "all-to-all", role="communication", heavy=True)
    page.note(tokens)
    return page.done(
        f"Before, each of {N} ranks has {a} heads of its chunk of tokens; in attention all chunks "
        f"of {a // N} heads"
    )
