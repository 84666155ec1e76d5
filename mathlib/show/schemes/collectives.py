"""Schemes of the collectives chapter: who holds what before and after, and who talks to whom.

A piece of the buffer is a cell with a slot for each rank, filled where that rank's numbers are in
it; a heavy frame when all are.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mathlib.checks import one_of, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.sheet import Sheet, place
from mathlib.show.rank_grid import Held, Whose, held_after
from mathlib.show.roles import ROLES, piece_look, rank_look
from mathlib.show.tables import Shown

RING = (
    "In every round each rank hands one chunk to its right: first the sums grow, then the "
    "finished chunks go round once more."
)
STATES = "What every rank holds before and after, chunk by chunk."
SLOTS = "A slot for each rank's numbers; heavy: all are in."


def piece(page: Sheet, whose: Whose, ranks: int, *, wide: float = 26, high: float = 16) -> Shape:
    """One piece of one rank."""
    slot = wide / ranks

    def draw(page: Sheet, x: float, y: float) -> None:
        for r in sorted(whose):
            page.cell(x + r * slot, y, slot, high, rank_look(r, ranks)[0])
        page.frame(x, y, wide, high, heavy=len(whose) == ranks)

    return Shape(wide, high, draw)


def pieces(
    page: Canvas, row: Sequence[Whose], ranks: int, wide: float, high: float = 16, gap: float = 2
) -> Shape:
    """The pieces of one rank, side by side."""
    return page.beside(*(piece(page, whose, ranks, wide=wide, high=high) for whose in row), gap=gap)


def ring(
    ranks: int = 4, *, rounds: Sequence[int] = (), caption: str = RING, name: str = ""
) -> Shown:
    """A ring all-reduce as a ring, round by round: what each rank holds, and which piece came."""
    whole("ranks", ranks, least=2)
    chosen = rounds or range(1, 2 * ranks - 1)
    return figure(partial(_ring, ranks=ranks, rounds=chosen), caption=caption, name=name)


def _ring(width: float, ranks: int, rounds: Sequence[int]) -> str:
    page = Canvas(width, f"A ring of {ranks} ranks")
    page.bottom = rank_legend(page, ranks)
    panels, turns = [], []
    large = len(rounds) <= 4 and ranks <= 4  # few rounds are drawn larger
    wide = 22.0 if large else 10.0 if page.narrow else 15.0
    columns = 3 - page.narrow - large
    for step in rounds:
        held, came = held_after(ranks, step)
        nodes = [_node(page, r, held[r], wide, came[r]) for r in range(ranks)]
        circle = page.around(*nodes, radius=max(4.5 * wide, 13 * ranks))
        phase = "reduce-scatter" if step < ranks else "all-gather"
        panels.append(page.panel(f"{step}. {phase}", circle))
        turns.append(nodes)
    page.flow(*panels, gap=6, above=16, most=columns)
    for nodes in turns:
        for r, node in enumerate(nodes):
            page.arrow(nodes[r - 1], node, role="communication", bend=-0.18)
    page.note(f"{SLOTS} A tick is under the chunk that came.")
    return page.done(RING)


def _node(page: Canvas, rank: int, row: Sequence[Whose], wide: float, came: int) -> Shape:
    """A rank's name, its pieces, and a tick under the one that came."""
    name, gap = page.words(f"rank {rank}", small=True), 4.0
    own = pieces(page, row, len(row), wide, 14, gap)
    colour = ROLES["communication"][0]

    def draw(page: Sheet, x: float, y: float) -> None:
        middle = x + came * (wide + gap) + wide / 2
        page.line(f"M{place(middle - 5, y + 6)}l5 -5l5 5", colour=colour, width=2)

    return page.stacked(name, own, Shape(own.wide, 7, draw), gap=2)


def rank_legend(page: Canvas, ranks: int) -> float:
    """A colour for each rank; where it ends."""
    return page.legend([(f"rank {r}", rank_look(r, ranks)) for r in range(ranks)], page.bottom) - 8


def _own(ranks: int) -> Held:
    """Every rank has numbers of its own in every piece."""
    return [[frozenset([r])] * ranks for r in range(ranks)]


def _shards(ranks: int) -> Held:
    """Every rank has one piece, the others nothing."""
    return [[frozenset([r] if p == r else []) for p in range(ranks)] for r in range(ranks)]


def _at_root(row: Sequence[Whose], ranks: int) -> Held:
    nothing: list[Whose] = [frozenset()] * ranks
    return [list(row), *[nothing] * (ranks - 1)]


def _all(ranks: int) -> Whose:
    return frozenset(range(ranks))


BEFORE_AFTER: dict[str, Callable[[int], tuple[Held, Held]]] = {
    "all-reduce": lambda n: (_own(n), [[_all(n)] * n for _ in range(n)]),
    "reduce-scatter": lambda n: (
        _own(n),
        [[_all(n) if p == r else frozenset() for p in range(n)] for r in range(n)],
    ),
    "all-gather": lambda n: (
        _shards(n),
        [[frozenset([p]) for p in range(n)] for _ in range(n)],
    ),
    "broadcast": lambda n: (
        _at_root([frozenset([0])] * n, n),
        [[frozenset([0])] * n for _ in range(n)],
    ),
    "reduce": lambda n: (_own(n), _at_root([_all(n)] * n, n)),
    "gather": lambda n: (_shards(n), _at_root([frozenset([p]) for p in range(n)], n)),
    "scatter": lambda n: (
        _at_root([frozenset([0])] * n, n),
        [[frozenset([0] if p == r else []) for p in range(n)] for r in range(n)],
    ),
    "all-to-all": lambda n: (_own(n), [[frozenset([p]) for p in range(n)] for _ in range(n)]),
}


def before_and_after(
    *collectives: str, ranks: int = 4, caption: str = STATES, name: str = ""
) -> Shown:
    """What ranks hold before and after a collective: a row for each rank, a cell for each piece."""
    chosen = collectives or ("reduce-scatter", "all-gather", "all-reduce", "broadcast")
    for one in chosen:
        one_of("collective", one, BEFORE_AFTER)
    draw = partial(_before_and_after, chosen=chosen, ranks=whole("ranks", ranks, least=2))
    return figure(draw, caption=caption, name=name)


def _before_and_after(width: float, chosen: Sequence[str], ranks: int) -> str:
    page = Canvas(width, "Before and after")
    page.bottom = rank_legend(page, ranks)
    panels, pairs = [], []
    for one in chosen:
        before, after = BEFORE_AFTER[one](ranks)
        left, right = _state(page, before, True), _state(page, after, False)
        gap = 34 if page.narrow else 44
        panels.append(page.panel(one, page.beside(left, right, gap=gap)))
        pairs.append((left, right))
    page.flow(*panels, gap=30, above=14)
    for left, right in pairs:
        page.arrow(left, right, role="communication")
    page.note(f"A row is a rank, a column a chunk. {SLOTS}")
    return page.done("Before and after " + ", ".join(chosen))


def _state(page: Canvas, held: Held, named: bool) -> Shape:
    n = len(held)
    wide = 24.0 if page.narrow else 28.0
    rows = page.stacked(*(pieces(page, row, n, wide) for row in held), gap=4)
    if not named:
        return rows
    names = [page.words(str(r), small=True, quiet=True) for r in range(n)]
    return page.beside(page.stacked(*(_level(page, one) for one in names), gap=4), rows, gap=5)


def _level(page: Canvas, word: Shape) -> Shape:
    """A word as high as a piece."""
    return page.beside(word, page.space(0, 16), gap=0)


Message = tuple[int, int, str]  # from, to, how much
Rounds = Sequence[Sequence[Message]]


def tree_rounds(ranks: int) -> list[list[Message]]:
    """A binomial tree: sums go to the root, the result comes back the same way."""
    up = []
    step = 1
    while step < ranks:
        senders = range(step, ranks, 2 * step)
        up.append([(r, r - step, "K") for r in senders])
        step *= 2
    down = [[(b, a, what) for a, b, what in messages] for messages in reversed(up)]
    return up + down


def halving_rounds(ranks: int) -> list[list[Message]]:
    """Recursive halving, then doubling: K/2 to the first partner, K/4 to the second, and back.

    The largest messages go the shortest way. Ranks beyond a power of two give K to
    the rank beside them, and get the sum back.
    """
    p = 1 << (whole("ranks", ranks, least=2).bit_length() - 1)
    paired = 2 * (ranks - p)
    going_on = [*range(1, paired, 2), *range(paired, ranks)]
    order = [1 << e for e in range(p.bit_length() - 1)]
    halves = [
        [(r, going_on[i ^ d], f"K/{2 << turn}") for i, r in enumerate(going_on)]
        for turn, d in enumerate(order)
    ]
    first = [[(r, r + 1, "K") for r in range(0, paired, 2)]] if paired else []
    last = [[(b, a, what) for a, b, what in messages] for messages in first]
    return first + halves + halves[::-1] + last


def who_talks(
    algorithms: Mapping[str, Rounds],
    *,
    node: int = 0,
    caption: str = "",
    name: str = "",
) -> Shown:
    """Who sends to whom in which round: a line of ranks for each round, arcs for messages.

    `algorithms` by name, such as tree_rounds(8); a gap parts nodes of `node` ranks.
    """
    said = caption or "Each line is a round; an arc is a message, or two, one each way."
    draw = partial(_who_talks, algorithms=algorithms, node=node)
    return figure(draw, caption=said, name=name)


def _who_talks(width: float, algorithms: Mapping[str, Rounds], node: int) -> str:
    page = Canvas(width, "Who talks to whom")
    panels, all_rounds = [], []
    for name, rounds in algorithms.items():
        n = 1 + max(max(a, b) for messages in rounds for a, b, _ in messages)
        lines = [_ranks_line(page, n, node) for _ in rounds]
        shares = [sorted({what for *_, what in messages}) for messages in rounds]
        rows = [
            page.beside(line, page.words(", ".join(share), small=True, quiet=True), gap=8)
            for line, share in zip(lines, shares, strict=True)
        ]
        high = 12 + 3.2 * n
        panels.append(page.panel(name, page.stacked(page.space(1), *rows, gap=high, align="start")))
        all_rounds.append((lines, rounds))
    page.flow(*panels, gap=16)
    for lines, rounds in all_rounds:
        for line, messages in zip(lines, rounds, strict=True):
            _arcs(page, [dot for dot, *_ in line.inner], messages)
    return page.done(
        ". ".join(
            f"{name}: {len(rounds)} rounds; "
            + "; ".join(", ".join(f"{a} to {b}" for a, b, _ in one) for one in rounds)
            for name, rounds in algorithms.items()
        )
    )


def _ranks_line(page: Canvas, n: int, node: int) -> Shape:
    """The ranks in a row, nodes apart, each in a colour of its own."""
    wide = 17.0 if page.narrow else 18.0
    looks = [piece_look(r, n) for r in range(n)]
    dots = [
        page.box(str(r), role=look, wide=wide, high=wide, solid=True, tight=True)
        for r, look in enumerate(looks)
    ]
    if not node:
        return page.beside(*dots, gap=5)
    x, inner = 0.0, []
    for r, dot in enumerate(dots):
        x += (13 if r % node == 0 else 5) if r else 0
        inner.append((dot, x, 0.0))
        x += wide
    return page.placed(x, wide, inner)


def _arcs(page: Canvas, dots: Sequence[Shape], messages: Sequence[Message]) -> None:
    """Messages above a line of ranks; two that cross each other are one arc with two heads."""
    pairs = {(a, b) for a, b, _ in messages}
    for a, b, _ in messages:
        both = (b, a) in pairs
        if not both or a < b:
            page.arc(dots[a], dots[b], role="communication", both=both)
