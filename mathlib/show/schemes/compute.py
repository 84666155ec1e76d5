"""Schemes of the compute chapter: where the six comes from, and where a model's work lies."""

from collections.abc import Iterator, Mapping
from functools import partial

from mathlib import specs, units
from mathlib.checks import InputError, one_of
from mathlib.compute import flops, params, reported
from mathlib.parts import Part, Parts
from mathlib.show import says
from mathlib.show.charts import bars
from mathlib.show.figures import Chart, figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import look
from mathlib.show.tables import Shown

SIX = (
    "A linear layer takes one matmul forward and two backward, all of the same size: "
    "2 FLOP for each weight and token, then 4."
)
ROWS, INNER, COLUMNS = 4, 3, 5  # cells drawn for r tokens, i inputs, o outputs


def linear_layer(*, caption: str = SIX, name: str = "") -> Shown:
    """The three matmuls of a linear layer with their shapes: 2 + 4 = 6."""
    return figure(_linear_layer, caption=caption, name=name)


def _linear_layer(width: float) -> str:
    page = Canvas(width, "2 + 4 = 6")
    x = ("A", ROWS, INNER, "activations", "r", "i")
    w = ("W", INNER, COLUMNS, "weights", "i", "o")
    g = ("G", ROWS, COLUMNS, "gradients", "r", "o")
    forward = matmul(page, x, w, ("Y", ROWS, COLUMNS, "activations", "r", "o"))
    inputs = matmul(page, g, _turned(w), ("dA", ROWS, INNER, "gradients", "r", "i"))
    weights = matmul(page, _turned(x), g, ("dW", INNER, COLUMNS, "gradients", "i", "o"))
    named = (
        (forward, "Forward", "Y = A W", "2 r i o"),
        (inputs, "Gradient of the input", "dA = G Wᵀ", "2 r i o"),
        (weights, "Gradient of the weights", "dW = Aᵀ G", "2 r i o"),
    )
    rows = [line(page, *one) for one in named]
    room = page.space(0 if page.narrow else 24 + page.wide("4 r i o"))  # for the brace
    page.column(*(page.beside(row, room, gap=0) for row in rows), gap=10, align="start")
    if not page.narrow:
        page.brace(page.last(rows[1]), page.last(rows[2]), "4 r i o", side="right")
    page.note("r tokens, i inputs, o outputs: forward 2 r i o, backward 4 r i o FLOP")
    return page.done(
        "Forward, r by i times i by o; gradient of the input, r by o times o by i; gradient of the "
        "weights, i by r times r by o. Each matmul takes 2 r i o operations"
    )


Matrix = tuple[str, int, int, str, str, str]  # name, rows, columns, role, and what they stand for


def _turned(one: Matrix) -> Matrix:
    name, rows, columns, role, row_label, column_label = one
    return f"{name}ᵀ", columns, rows, role, column_label, row_label


def matmul(page: Canvas, *three: Matrix) -> Shape:
    """Two matrices and their matmul, with signs between them."""
    a, b, c = (
        page.matrix(
            name,
            rows=rows,
            columns=columns,
            role=role,
            row_label=row_label,
            column_label=column_label,
            cell=15 if page.narrow else 17,
        )
        for name, rows, columns, role, row_label, column_label in three
    )
    return page.beside(a, "·", b, "=", c, gap=8 if page.narrow else 14)


def line(page: Canvas, drawn: Shape, title: str, law: str, flop: str) -> Shape:
    """One matmul with its name and its FLOP: beside it in a column, around it on a phone."""
    if page.narrow:
        head = page.words(f"{title}: {law}", bold=True, anchor="start")
        return page.stacked(head, page.beside(drawn, page.words(flop)), gap=4, align="start")
    wide = page.wide("Gradient of the weights", bold=True) + 8
    name = page.words(title, bold=True, anchor="start")
    head = page.stacked(name, page.words(law, quiet=True, anchor="start"), gap=2, align="start")
    spaced = page.stacked(head, page.space(wide), gap=0, align="start")
    room = page.stacked(drawn, page.space(330), gap=0, align="start")
    return page.beside(spaced, room, page.words(flop, bold=True), gap=16)


OF = ("flop", "parameters")


def block(
    model: str | specs.Model,
    *,
    of: str = "flop",
    tokens: int | None = None,
    caption: str = "",
    name: str = "",
) -> Shown:
    """A transformer from the tokens to the loss, with the forward FLOP of a token, or the
    parameters, that each box takes.
    """
    found = specs.find_model(model)
    one_of("of", of, OF)
    if of == "flop":
        s = found.context if tokens is None else tokens
        whole, kind = flops.forward(found, tokens=s).scaled(1 / s), "FLOP"
    else:
        whole, kind = params.count(found), "parameter"
    layer = found.layers
    rows = _by_the_way(list(_boxes(whole)))
    most = max(rows, key=lambda row: row[1])
    what = {"flop": "forward FLOP of a token", "parameters": "parameters"}[of]
    said = caption or (
        f"{found.title}: {units.show(whole.total, kind)} in all, "
        f"most of it in {most[0]} ({most[1] / whole.total:.0%})."
    )
    draw = partial(_block, rows=rows, kind=kind, layers=layer, title=f"{found.title}: {what}")
    return figure(draw, caption=said, name=name)


Box = tuple[str, float, str]  # what, how much, its group


NAMED = {"vocabulary": "LM head"}
OUTSIDE = ("embedding", "positions", "vocabulary", "head")  # of the layers
WHOLE = (*OUTSIDE, "norms")


def _boxes(whole: Parts) -> Iterator[Box]:
    """Every part that is no sum, in the order in which a token meets it; groups whose parts have
    the same names, as experts and MLP, stay whole.
    """
    sums = {g: p for g, p in whole.items() if isinstance(p, Parts) and g not in WHOLE}
    names = [name for part in sums.values() for name in part]
    for group, part in whole.items():
        alone = group in sums and all(names.count(name) == 1 for name in sums[group])
        inside: dict[str, Part] = dict(sums[group].items()) if alone else {group: part}
        for name, amount in inside.items():
            size = amount.total if isinstance(amount, Parts) else amount
            if size or group == "embedding":
                yield NAMED.get(name, name), size, group


def _by_the_way(rows: list[Box]) -> list[Box]:
    """The same boxes with attention's output behind its core, where a token meets it."""
    names = [name for name, *_ in rows]
    if "output" not in names or "attention values" not in names:
        return rows
    output = rows.pop(names.index("output"))
    after = next(i for i, row in enumerate(rows) if row[0] == "attention values")
    return [*rows[: after + 1], output, *rows[after + 1 :]]


TOGETHER = ({"query", "key", "value"}, {"gate", "up"}, {"experts", "shared experts"})


def _together(rows: list[Box]) -> list[list[Box]]:
    """The boxes in groups, one after the other; the boxes of a group read the same input."""
    groups: list[list[Box]] = []
    for row in rows:
        before = groups[-1][-1][0] if groups else ""
        if any({before, row[0]} <= names for names in TOGETHER):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _block(width: float, rows: list[Box], kind: str, layers: int, title: str) -> str:
    page = Canvas(width, title)
    most, total = max(size for _, size, _ in rows), sum(size for _, size, _ in rows)
    wide = max(page.wide(name) for name, *_ in rows) + 26
    room = width - wide - 12 - page.wide("100.00 GFLOP, 99%", page.small) - 44
    lines, boxes = [], []
    for name, size, group in rows:
        role = look(name) if look(name) != look("") else look(group)
        boxes.append(page.box(name, role=role, wide=wide))
        bar = page.strip([("", 1, role)], wide=max(1.0, room * size / most), high=14)
        words = f"{units.show(size, kind, digits=3)}, {size / total:.0%}"
        note = page.words(words, small=True, quiet=True, anchor="start")
        lines.append(page.beside(boxes[-1], bar if size else page.space(1), note, gap=8))
    groups, left = _together(rows), iter(zip(lines, boxes, strict=True))
    drawn = [[next(left) for _ in group] for group in groups]
    parts = [page.stacked(*(line for line, _ in one), gap=1, align="start") for one in drawn]
    page.at(page.stacked(*parts, gap=14, align="start"), 30, page.bottom + 8)
    for one, other in zip(drawn, drawn[1:], strict=False):
        page.arrow(one[-1][1], other[0][1])
    if len(groups) < len(rows):
        page.note("Boxes that touch read the same numbers.", above=8)
    inner = [box for box, row in zip(boxes, rows, strict=True) if row[2] not in OUTSIDE]
    if inner:
        page.bracket(inner[0], inner[-1], f"{layers} layers")
    return page.done(
        ". ".join(f"{name}: {units.show(size, kind, digits=3)}" for name, size, _ in rows)
    )


def utilisation(run: str, *, caption: str = "", name: str = "") -> Shown:
    """What the devices of a reported run could have done, did, and needed to do: HFU and MFU."""
    shares = reported.utilizations(reported.find_run(run))
    mfu, hfu = shares["mfu"], shares["hfu"]
    if not mfu or not hfu:
        raise InputError(f"run = {run!r}: expected one whose MFU and HFU are known")
    once = {"forward": mfu / 3, "backward": 2 * mfu / 3}
    done = {"forward": mfu / 3, "recompute": hfu - mfu, "backward": 2 * mfu / 3}
    said = caption or (
        f"{run}: of what the devices could have done, they did {says.percent(hfu)}; the model "
        f"needed {says.percent(mfu)}."
    )
    rows = {f"HFU, {says.percent(hfu)}: executed": done}
    rows |= {f"MFU, {says.percent(mfu)}: needed by the model": once}
    return figure(partial(_utilisation, rows=rows), caption=said, name=name)


def _utilisation(width: float, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Bars as long as the peak, filled as far as a program came."""
    page = Canvas(width, "Share of what the devices could do")
    parts = [*max(rows.values(), key=len), "idle"]
    entries = [(part, look(part)) for part in parts[:-1]]
    page.bottom = page.legend([*entries, ("not reached", look("idle"))], page.bottom + 4)
    told = []
    for words, shares in rows.items():
        whole = {**shares, "idle": 1 - sum(shares.values())}
        bar = [(says.percent(share), share, part) for part, share in whole.items()]
        head = page.words(words, bold=True, anchor="start")
        drawn = page.stacked(head, page.strip(bar, wide=width - 4), gap=4, align="start")
        page.at(drawn, 2, page.bottom + 10)
        inside = ", ".join(f"{part} {says.percent(share)}" for part, share in shares.items())
        told.append(f"{words}: {inside}")
    return page.done(". ".join(told))


def hours(rows: Mapping[str, Parts], *, title: str, caption: str = "", name: str = "") -> Chart:
    """What device-hours go into, a bar for each way to run a job."""
    amounts = {row: {part: parts.amount(part) for part in parts} for row, parts in rows.items()}
    most = max(rows, key=lambda row: rows[row].total)
    said = caption or f"{most} pays most: {rows[most].total:,.0f} hours."
    show, unit = says.number, "device-hours"
    return bars(amounts, show, unit, title=title, caption=said, words=said, name=name)
