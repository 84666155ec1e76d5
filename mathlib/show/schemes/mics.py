"""Schemes of the MiCS chapter: who shares what with whom, a step's messages, a gather by nodes,
and a checkpoint cut anew.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

from mathlib.checks import InputError, one_of, quotient, whole
from mathlib.show import says
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.rank_grid import Held, rank_rows
from mathlib.show.roles import ROLES, rank_look
from mathlib.show.tables import Shown
from mathlib.traffic import mesh

GROUPS = (
    "A colour is a shard of the model; ranks of one colour hold the same shard of other replicas."
)
ORDERS = "Both orders end with everything everywhere; the first sends a fraction between nodes."
BOTH = ("Between nodes first", "Inside nodes first")
STEP = "Gathers and scatters stay in the sharding group; only the sums at the end leave it."
CUT_ANEW = "Each new rank reads from the files whose shards overlap with its own."


def groups(
    world: int = 8, shard: int = 4, node: int = 4, *, caption: str = GROUPS, name: str = ""
) -> Shown:
    """Ranks in their nodes, coloured by the shard they hold; a brace for each replica."""
    quotient("world", world, {"node": node})
    grid = mesh.sagemaker(world=world, shard=shard)
    draw = partial(_groups, grid=grid, node=node)
    return figure(draw, caption=caption, name=name)


def _groups(width: float, grid: mesh.Mesh, node: int) -> str:
    S, N = grid.sizes["shard"], grid.world
    page = Canvas(width, f"{N} ranks in {N // node} nodes, sharded over {S}")
    ranks = rank_rows(page, grid, node, N // node)
    for first in range(0, N, S):
        side = "right" if node <= S else "below"
        page.brace(ranks[first], ranks[first + S - 1], f"replica {first // S}", side=side)
    return page.done(_groups_said(grid, node))


def _groups_said(grid: mesh.Mesh, node: int) -> str:
    copies = ", ".join(f"{g[0]} to {g[-1]}" for g in grid.groups("shard")[:4])
    more = " and so on" if grid.sizes["replica"] > 4 else ""
    return f"{grid.world // node} nodes of {node} ranks; each of these is a replica: {copies}{more}"


def two_orders(
    nodes: int = 2,
    ranks: int = 2,
    *,
    shown: Sequence[str] = BOTH,
    caption: str = ORDERS,
    name: str = "",
) -> Shown:
    """A hierarchical all-gather, in both orders or one: what every rank holds after each stage."""
    for order in shown:
        one_of("shown", order, BOTH)
    sizes = {"p": whole("nodes", nodes, least=2), "g": whole("ranks", ranks, least=2)}
    return figure(partial(_two_orders, **sizes, shown=shown), caption=caption, name=name)


def stages(p: int, g: int, *, nodes_first: bool) -> list[Held]:
    """Which shards each rank holds before, after the first stage and after the second."""
    N = p * g

    def half(r: int, piece: int) -> bool:
        return piece % g == r % g if nodes_first else piece // g == r // g

    def held(there: "list[list[bool]]") -> Held:
        return [
            [frozenset([piece] if has else []) for piece, has in enumerate(row)] for row in there
        ]

    start = [[piece == r for piece in range(N)] for r in range(N)]
    middle = [[half(r, piece) for piece in range(N)] for r in range(N)]
    return [held(start), held(middle), held([[True] * N] * N)]


def _two_orders(width: float, p: int, g: int, shown: Sequence[str]) -> str:
    page = Canvas(width, "An all-gather in two stages")
    stages_of = (("between nodes", "inside nodes"), ("inside nodes", "between nodes"))
    leaving = dict(zip(BOTH, (g * (p - 1), g * g * (p - 1)), strict=True))
    for title in shown:
        one, two = stages_of[BOTH.index(title)]
        page.column(page.words(title, bold=True), above=16)
        states = stages(p, g, nodes_first=one == "between nodes")
        drawn = [_state(page, held, p, g) for held in states]
        gap = 40 if page.narrow else 120
        page.row(*drawn, gap=gap, above=8 if page.narrow else 18)
        for (a, b), label in zip(pairwise(drawn), (one, two), strict=True):
            page.arrow(a, b, "" if page.narrow else label, role="communication")
        page.note(f"Each node sends {leaving[title]} shards to other nodes.", above=6)
    return page.done("; ".join(f"{title}: {leaving[title]} shards leave a node" for title in shown))


def _state(page: Canvas, held: Held, p: int, g: int) -> Shape:
    """What each rank holds, node by node."""
    N = p * g
    wide = (86.0 if page.narrow else 128.0) / N
    looks = [[rank_look(c, N) if whose else None for c, whose in enumerate(row)] for row in held]
    rows = [page.grid([row], cell=wide, high=13) for row in looks]
    blocks = [page.stacked(*rows[i * g : (i + 1) * g], gap=2) for i in range(p)]
    return page.stacked(*blocks, gap=9)


OPERATIONS = {
    "all-gather": ("weights", "gather weights"),
    "reduce-scatter": ("gradients", "scatter gradients"),
    "all-reduce": ("communication", "sum over replicas"),
}
Phases = Mapping[str, Sequence[tuple[str, int]]]  # phase: (operation of part, bytes) in order


def step(phases: Phases, *, caption: str = STEP, name: str = "") -> Shown:
    """The messages of one recorded step in their order: what, of which layer, and its bytes."""
    for events in phases.values():
        for what, _ in events:
            if what.partition(" of ")[0] not in OPERATIONS:
                raise InputError(f"what = {what!r}: expected {', '.join(OPERATIONS)} of a part")
    return figure(partial(_step, phases=phases), caption=caption, name=name)


def _step(width: float, phases: Phases) -> str:
    page = Canvas(width, "One step, message by message")
    entries = [(said, ROLES[role]) for role, said in OPERATIONS.values()]
    page.bottom = page.legend(entries, page.bottom) - 8
    across = 4 if page.narrow else 7
    left = 4 + max(page.wide(phase, page.small) for phase in phases)
    wide = (width - left - 8) / across - 6
    for phase, events in phases.items():
        top = page.bottom + 12
        page.text(0, top + 18, phase, size=page.small, quiet=True)
        for number, (what, size) in enumerate(events):
            box = _message(page, what, size, wide)
            x, y = left + 8 + number % across * (wide + 6), top + number // across * 46
            page.at(box, x, y)
    said = "; ".join(f"{phase}: {', '.join(what for what, _ in e)}" for phase, e in phases.items())
    return page.done(said)


def _message(page: Canvas, what: str, size: int, wide: float) -> Shape:
    operation, _, part = what.partition(" of ")
    label = part.replace("blocks.", "layer ").replace("the rest", "rest")
    role, _ = OPERATIONS[operation]
    lines = [page.words(label, small=True), page.words(says.size(size), small=True, quiet=True)]
    text = page.stacked(*lines, gap=0)
    frame = page.box("", role=role, wide=wide, high=40, hint=f"{what}, {says.size(size)}")
    return page.placed(wide, 40, [(frame, 0, 0), (text, (wide - text.wide) / 2, 2)])


def cut_anew(saved: int = 4, loaded: int = 3, *, caption: str = CUT_ANEW, name: str = "") -> Shown:
    """A flat buffer saved by some ranks and read by more or fewer: who reads from whose file."""
    draw = partial(_cut_anew, N=whole("saved", saved), M=whole("loaded", loaded))
    return figure(draw, caption=caption, name=name)


def overlaps(saved: int, loaded: int) -> list[tuple[int, int]]:
    """Which old shard overlaps with which new one."""
    N, M = saved, loaded
    return [
        (a, b) for a in range(N) for b in range(M) if a * M < (b + 1) * N and b * N < (a + 1) * M
    ]


def _cut_anew(width: float, N: int, M: int) -> str:
    page = Canvas(width, f"Saved by {N} ranks, loaded by {M}")
    left = page.wide("saved", page.small) + 14
    room, top = width - left - 4, page.bottom + 10
    lines = []
    for y, label, ranks in ((top, "saved", N), (top + 90, "loaded", M)):
        page.text(0, y + 18, label, size=page.small, quiet=True)
        line = []
        for r in range(ranks):
            box = page.box(
                f"rank {r}", role=rank_look(r, max(N, M)), wide=room / ranks - 4, solid=True
            )
            line.append(page.at(box, left + r * room / ranks, y))
        lines.append(line)
    for a, b in overlaps(N, M):
        page.arrow(lines[0][a], lines[1][b])
    return page.done("; ".join(f"rank {b} reads file {a}" for a, b in overlaps(N, M)))
