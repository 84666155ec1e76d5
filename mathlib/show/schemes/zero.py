"""Schemes of the zero chapter: copies, shards of a flat buffer, and what comes and goes in a step.

A cell is one layer, or one rank's shard of a buffer. It is full where all of it is there; where a
rank keeps only its own shard, only that part of the cell is.
"""

from collections.abc import Callable, Mapping
from functools import partial

from mathlib.checks import ceil_div, whole
from mathlib.memory import states
from mathlib.show import says
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.sheet import Sheet
from mathlib.show.roles import ROLES
from mathlib.show.tables import Shown

ROW = (
    "All tensors lie end to end in one flat buffer, padded until the ranks divide it; rank r keeps "
    "shard r, wherever in a tensor that begins."
)
STEP = (
    "The optimizer stands between the two halves of an all-reduce, and needs no number of another "
    "shard."
)
LEAVE = (
    "With stage 1 all gradients are there at the end of backward; with stage 2 a layer's gradients "
    "leave as soon as they are computed, and a shard stays."
)
COME = (
    "A layer is whole while it computes, once forward and once backward; with prefetch the next "
    "layer is already in flight."
)
SENT = (
    "Stage 1 sends once a step, stage 2 the gradients of every micro-batch, stage 3 the weights as "
    "well, twice."
)
RELEASED = (
    "What autograd has saved is a view of a flat buffer, whose memory is freed when the layer is "
    "released and filled again when it is gathered."
)
QUIET = (("#aab3bd", ""), ("#d3d9df", ""))  # ranks in turn: colours are kept for what they hold
Filled = Callable[[int, int], tuple[str, float]]  # row, column -> role and share; "" is empty


def copies(parameters: float, ranks: int = 64, *, caption: str = "", name: str = "") -> Shown:
    """The states of a data-parallel run: one set in colour, its copies in grey."""
    N = whole("ranks", ranks, least=2)
    total = states.model_states(parameters).total
    said = caption or (
        f"{N} ranks hold {says.size(N * total)}, of which {says.size((N - 1) * total)} are copies "
        "of what rank 0 has."
    )
    return figure(partial(_copies, N=N, total=total), caption=said, name=name)


def _copies(width: float, N: int, total: float) -> str:
    page = Canvas(width, f"The states on {N} ranks")
    each = states.per_parameter("mixed-adam")
    kinds = {role: each.amount(role) for role in ("weights", "gradients")}
    kinds["optimizer"] = each.total - sum(kinds.values())  # with the master weights
    grey = ROLES["idle"]
    page.bottom = page.legend([*((k, ROLES[k]) for k in kinds), ("a copy", grey)], page.bottom)
    across = 8 if page.narrow else 16
    wide = (width - 4) / across - 6
    for start in range(0, N, across):
        strips = [
            page.strip(
                [("", size, ROLES[kind] if not rank else grey) for kind, size in kinds.items()],
                wide=wide,
                high=14,
            )
            for rank in range(start, min(start + across, N))
        ]
        page.row(*strips, gap=6, above=8)
    return page.done(f"{N} equal sets of {says.size(total)}; one of them would be enough")


def slices(
    tensors: Mapping[str, int], ranks: int = 4, *, caption: str = ROW, name: str = ""
) -> Shown:
    """Tensors (name and numbers) end to end in a padded buffer, and the shards of the ranks."""
    N = whole("ranks", ranks, least=2)
    return figure(partial(_row_of_slices, tensors=tensors, N=N), caption=caption, name=name)


def _row_of_slices(width: float, tensors: Mapping[str, int], N: int) -> str:
    page, left = Canvas(width, "One flat buffer, cut into equal shards"), 62
    wide, total = width - left - 4, sum(tensors.values())
    length = ceil_div(total, N)
    padding = N * length - total
    shapes = [(f"{name}: {size}", size, "weights") for name, size in tensors.items()]
    rows = {"tensors": [(label, size, ROLES[role]) for label, size, role in shapes]}
    filled = [("flat buffer", total, ROLES["weights"])]
    rows["buffer"] = [*filled, ("padding", padding, ROLES["idle"])] if padding else filled
    rows["shards"] = [(f"rank {r}", length, QUIET[r % 2]) for r in range(N)]
    for label, parts in rows.items():
        y = page.bottom + 10
        page.text(0, y + 20, label)
        share = sum(size for _, size, _ in parts) / (N * length)
        page.at(page.strip(parts, wide=wide * share, high=30), left, y)
    y = page.bottom + 18
    for r in range(N + 1):
        x = left + wide * r / N
        anchor = "end" if r == N else "middle" if r else "start"
        page.text(x, y, f"{r * length}", anchor=anchor, size=page.small, quiet=True)
    page.bottom = y + 4
    return page.done(
        f"{total} numbers in {len(tensors)} tensors, {padding} of padding, shards of {length}: "
        + ", ".join(f"rank {r} from {r * length}" for r in range(N))
    )


def step(ranks: int = 4, *, caption: str = STEP, name: str = "") -> Shown:
    """One update by shards: reduce-scatter, the optimizer on a shard, all-gather."""
    return figure(partial(_step, N=whole("ranks", ranks, least=2)), caption=caption, name=name)


def _step(width: float, N: int) -> str:
    page = Canvas(width, "One update, shard by shard")
    gap = 10.0 if page.narrow else 22.0
    wide = (width - 6 - gap * (N - 1)) / N
    cell, whole_wide = wide / N, wide * N + gap * (N - 1)

    def line(role: str, own: bool, text: str) -> list[Shape]:
        rows = [
            page.grid([[role if not own or s == r else None for s in range(N)]], cell=cell, high=22)
            for r in range(N)
        ]
        panels = [page.stacked(row, page.words(text, small=True), gap=3) for row in rows]
        page.row(*panels, gap=gap, above=26)
        return panels

    def bar(text: str) -> Shape:
        return page.row(page.box(text, role="communication", solid=True, wide=whole_wide), above=26)

    heads = [page.box(f"rank {r}", wide=wide) for r in range(N)]
    page.row(*heads, above=8, gap=gap)
    own = line("gradients", False, "own gradients")
    scatter = bar("reduce-scatter")
    mean = line("gradients", True, "shard of mean")
    update = line("optimizer", True, "updates it")
    gather = bar("all-gather")
    after = line("weights", False, "new weights")
    last = [page.last(scatter), page.last(gather)]
    for r in range(N):
        for above, below in ((own[r], last[0]), (last[0], mean[r]), (mean[r], update[r])):
            page.drop(above, below)
        page.drop(update[r], last[1])
        page.drop(last[1], after[r])
    return page.done(
        f"{N} ranks reduce-scatter their gradients, each updates its shard of the weights, and an "
        "all-gather gives every rank all shards"
    )


def gradients_leave(
    layers: int = 4, ranks: int = 4, *, caption: str = LEAVE, name: str = ""
) -> Shown:
    """Which gradients are alive after each layer of a backward, with stage 1 and with stage 2."""
    L, N = whole("layers", layers, least=2), whole("ranks", ranks, least=2)

    def first(row: int, moment: int) -> tuple[str, float]:
        return ("gradients", 1) if row >= L - 1 - moment else ("", 0)

    def second(row: int, moment: int) -> tuple[str, float]:
        here = L - 1 - moment
        return ("gradients", 1 if row == here else 1 / N) if row >= here else ("", 0)

    heads = [f"B{L - m}" for m in range(L)]
    panels = {"Stage 1": first, "Stage 2": second}
    draw = partial(_moments, panels=panels, heads=heads, L=L, title="Gradients alive in backward")
    return figure(draw, caption=caption, name=name)


def layers_come(layers: int = 4, ranks: int = 4, *, caption: str = COME, name: str = "") -> Shown:
    """Which layers are whole while each computes, without and with prefetch."""
    L, N = whole("layers", layers, least=2), whole("ranks", ranks, least=2)
    order = [*range(L), *reversed(range(L))]

    def alone(row: int, moment: int) -> tuple[str, float]:
        return "weights", 1 if row == order[moment] else 1 / N

    def ahead(row: int, moment: int) -> tuple[str, float]:
        if row != order[moment] and order[moment + 1 : moment + 2] == [row]:
            return "communication", 1
        return alone(row, moment)

    heads = [f"F{i + 1}" for i in range(L)] + [f"B{i + 1}" for i in reversed(range(L))]
    panels = {"Gathered when needed": alone, "With prefetch": ahead}
    draw = partial(_moments, panels=panels, heads=heads, L=L, title="Layers that are whole")
    return figure(draw, caption=caption, name=name)


def _moments(
    width: float, panels: Mapping[str, Filled], heads: list[str], L: int, title: str
) -> str:
    page = Canvas(width, title)
    styles = {
        "weights": ("there", ROLES["weights"]),
        "communication": ("in flight", ROLES["communication"]),
        "gradients": ("there", ROLES["gradients"]),
    }
    used = dict.fromkeys(
        fill(r, c)[0] for fill in panels.values() for r in range(L) for c in range(len(heads))
    )
    page.bottom = page.legend([styles[role] for role in styles if role in used], page.bottom)
    left = page.wide("layer 4", page.small) + 10
    room = width if page.narrow else width / len(panels) - 12
    cell = min(44.0, (room - left) / len(heads))
    shapes = [
        page.panel(said, _grid(page, fill, heads, L, left, cell)) for said, fill in panels.items()
    ]
    page.flow(*shapes, gap=12, above=10)
    told = [
        f"{said}: "
        + ", ".join(f"{sum(fill(r, c)[1] for r in range(L)):g}" for c in range(len(heads)))
        for said, fill in panels.items()
    ]
    return page.done(f"Layers' worth at {', '.join(heads)}. " + "; ".join(told))


def _grid(page: Canvas, fill: Filled, heads: list[str], L: int, left: float, cell: float) -> Shape:
    high, top = 20.0, page.small + 8

    def draw(page: Sheet, x: float, y: float) -> None:
        for c, head in enumerate(heads):
            middle = x + left + (c + 0.5) * cell
            page.text(middle, y + page.small, head, anchor="middle", size=page.small, quiet=True)
        for r in range(L):
            low = y + top + r * (high + 4)
            page.text(x, low + high / 2 + 4.5, f"layer {r + 1}", size=page.small)
            for c in range(len(heads)):
                role, share = fill(r, c)
                if share:
                    page.rect(x + left + c * cell, low, (cell - 3) * share, high, ROLES[role])
                page.frame(x + left + c * cell, low, cell - 3, high)

    return Shape(left + cell * len(heads), top + L * (high + 4), draw)


def released(*, caption: str = RELEASED, name: str = "") -> Shown:
    """A saved view, the buffer it looks at, and the memory behind it, which comes and goes."""
    return figure(_released, caption=caption, name=name)


def _released(width: float) -> str:
    page = Canvas(width, "A flat buffer gives its memory back")
    panels, chains = [], []
    for said, there in (("Gathered", True), ("Released", False), ("Gathered again", True)):
        view = page.box("saved view", wide=110)
        row = page.box("flat buffer", wide=110)
        cells = [["weights" if there else None for _ in range(8)]]
        memory = page.grid(cells, cell=110 / 8, high=22)
        under = page.words("36 numbers" if there else "0 bytes", small=True)
        chains.append((view, row, memory))
        panels.append(page.panel(said, page.stacked(view, row, memory, under, gap=20)))
    page.flow(*panels, gap=16, above=10)
    for view, row, memory in chains:
        page.drop(view, row)
        page.drop(row, memory)
    return page.done(
        "A saved view looks at the flat buffer, and the buffer at memory: gathered 36 numbers, "
        "released 0 bytes, gathered again 36 numbers; view and buffer stay"
    )


def accumulated(micro_batches: int = 3, *, caption: str = SENT, name: str = "") -> Shown:
    """What each stage sends, and when, in a step of several micro-batches."""
    m = whole("micro_batches", micro_batches)
    return figure(partial(_accumulated, m=m), caption=caption, name=name)


FORWARD, BACKWARD, PASS = 1.0, 2.0, 0.9  # lengths as drawn; a pass sends K (N-1)/N
Sent = dict[str, list[tuple[str, float]]]  # a line: what is sent, and when


def _passes(m: int) -> Sent:
    """The passes around the ring that each stage makes, as volumes.zero counts them."""
    length, end = FORWARD + BACKWARD, m * (FORWARD + BACKWARD)
    starts = [i * length for i in range(m)]
    leave = [("gradients", start + length - PASS) for start in starts]
    come = [("weights", start + later) for start in starts for later in (0, FORWARD)]
    return {
        "stage 1": [("gradients", end), ("weights", end + PASS)],
        "stage 2": [*leave, ("weights", end)],
        "stage 3": [*come, *leave],
    }


def _accumulated(width: float, m: int) -> str:
    page = Canvas(width, f"A step of {m} micro-batches")
    roles = ("forward", "backward", "gradients", "weights")
    page.bottom = page.legend([(role, ROLES[role]) for role in roles], page.bottom) + 8
    left, length = page.wide("stage 1", page.small) + 12, FORWARD + BACKWARD
    scale = (width - left - 4) / (m * length + 2 * PASS)
    work = [("forward", i * length, FORWARD) for i in range(m)]
    work += [("backward", i * length + FORWARD, BACKWARD) for i in range(m)]
    lines = {"rank": work}
    for stage, sent in _passes(m).items():
        lines[stage] = [(what, start, PASS) for what, start in sent]
    for label, parts in lines.items():
        y = page.bottom + (12 if label == "stage 1" else 4)
        page.text(0, y + 16, label, size=page.small)
        for what, start, long in parts:
            page.rect(left + start * scale, y, long * scale - 1, 22, ROLES[what], what)
    told = ", ".join(f"{stage} {len(sent)}" for stage, sent in _passes(m).items())
    return page.done(f"Passes around the ring in a step of {m} micro-batches: {told}")
