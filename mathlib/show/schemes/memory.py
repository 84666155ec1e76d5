"""Schemes of the memory chapter: the life of the bytes over one step, and a parameter's bytes."""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from mathlib import specs
from mathlib.memory import activations, one_device, precision
from mathlib.parts import Parts
from mathlib.show import says, svg
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.sheet import place
from mathlib.show.roles import PART_ROLES, ROLES
from mathlib.show.tables import Shown

HIGH = 240.0
# When each moment comes, in shares of the step; a step begins with what stays from the one before.
WHEN = {
    "start": 0.0,
    "end of layers": 0.31,
    "end of forward": 0.34,
    "loss": 0.39,
    "head": 0.45,
    "last layer": 0.50,
    "first layer": 0.80,
    "embedding": 0.86,
    "update": 0.92,
    "end": 1.0,
}
PHASES = {"forward": (0.0, 0.34), "backward": (0.34, 0.89), "update": (0.89, 1.0)}
ORDER = ("weights", "master weights", "optimizer", "gradients", "activations", "logits")
STAYS = (*ORDER[:3], "main gradients")
Alive = Mapping[str, float]  # bytes by role


def life_of_a_step(
    model: str, *, recipe: str = "mixed-adam", caption: str = "", name: str = "", **options: Any
) -> Shown:
    """Bytes alive from the start of a step to its end, by role: from memory.one_device, whose
    arguments `options` are.
    """
    alive = one_device.moments(model, recipe=recipe, **options)
    points = {moment: _by_role(parts) for moment, parts in alive.items() if moment in WHEN}
    rest = {role: size for role, size in points["update"].items() if role in STAYS}
    layers = points["end of forward"] | {"logits": 0}  # these come last
    points = {"start": rest, "end of layers": layers, **points, "end": rest}
    peak = max(points, key=lambda moment: sum(points[moment].values()))
    most = sum(points[peak].values())
    if max(one.get("logits", 0) for one in points.values()) < most / 50:  # too few to be seen
        points = {moment: _without_logits(one) for moment, one in points.items()}
    size = says.size(most)
    said = caption or (
        f"States stay, activations rise through the forward pass and fall through the backward "
        f"pass; the most, {size}, is alive at the {peak.removeprefix('end of ')}."
    )
    title = f"The bytes of one step, {alive[next(iter(alive))].title.split(',')[0]}"
    draw = partial(_life, points=points, peak=peak, title=title)
    return figure(draw, caption=said, name=name)


def _by_role(parts: Parts) -> dict[str, float]:
    """What is alive, by role; roles of no order of their own are temporary."""
    found: dict[str, float] = {}
    for part in parts:
        role = {"recomputation": "activations", "update": "temporary"}.get(part)
        role = role or PART_ROLES.get(part, part)
        role = role if role in (*ORDER, "main gradients") else "temporary"
        found[role] = found.get(role, 0) + parts.amount(part)
    return found


def _without_logits(alive: Alive) -> dict[str, float]:
    """The same, with the logits among what is temporary."""
    rest = {role: size for role, size in alive.items() if role != "logits"}
    return rest | {"temporary": rest.get("temporary", 0) + alive.get("logits", 0)}


def _life(width: float, points: Mapping[str, Alive], peak: str, title: str) -> str:
    page = Canvas(width, title)
    used = [
        role
        for role in (*STAYS, *ORDER[3:], "temporary")
        if any(one.get(role) for one in points.values())
    ]
    top = page.legend([(role, ROLES[role]) for role in used], page.bottom) + 22
    most = max(sum(one.values()) for one in points.values())
    levels = [(tick, says.size(tick)) for tick in svg.ticks(0, most)]
    left = max(page.wide(words, page.small) for _, words in levels) + 10
    foot, scale = top + HIGH, HIGH / most
    for tick, words in levels:
        y = foot - tick * scale
        page.text(left - 7, y + 4.5, words, anchor="end", size=page.small, quiet=True)
        page.line(f"M{place(left, y)}H{width - 4:.1f}", opacity=0.15)
    x = {moment: left + WHEN[moment] * (width - left - 4) for moment in points}
    base = dict.fromkeys(points, 0.0)
    for role in used:
        upper = {moment: base[moment] + points[moment].get(role, 0) for moment in points}
        ways = [place(x[m], foot - upper[m] * scale) for m in points]
        ways += [place(x[m], foot - base[m] * scale) for m in reversed(list(points))]
        page.area("M" + "L".join(ways) + "Z", ROLES[role], hint=role)
        base = upper
    _peak(page, x[peak], foot - most * scale, f"{peak.removeprefix('end of ')}: {says.size(most)}")
    _phases(page, left, foot)
    page.bottom = foot + 30
    told = (f"{m}: {says.size(sum(points[m].values()))}" for m in points)
    return page.done("Alive at the " + ", at the ".join(told) + ".")


def _peak(page: Canvas, x: float, y: float, words: str) -> None:
    """The fullest moment, named beside its tip."""
    page.mark(x, y, "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "currentColor", words)
    right = x + page.wide(words, bold=True) + 10 < page.width
    at, anchor = (x + 9, "start") if right else (x - 9, "end")
    page.text(at, y - 4, words, anchor=anchor, size=page.small, bold=True)


def _phases(page: Canvas, left: float, foot: float) -> None:
    """Forward, backward and update under the axis."""
    wide = page.width - left - 4
    for phase, (start, end) in PHASES.items():
        x = left + end * wide
        page.line(f"M{place(x, foot - HIGH)}V{foot + 5:.1f}", opacity=0.4, dash="3 3")
        middle = left + (start + end) / 2 * wide
        middle = min(middle, page.width - page.wide(phase, page.small) / 2)
        page.text(middle, foot + 18, phase, anchor="middle", size=page.small)


def bytes_of_a_parameter(
    *recipes: str | precision.Recipe, caption: str = "", name: str = ""
) -> Shown:
    """One square a byte: what each recipe keeps of a single parameter."""
    chosen = recipes or ("adam-fp32", "mixed-adam", "mixed-adam-fp32-gradients")
    totals = {one: precision.bytes_per_parameter(one) for one in chosen}
    said = caption or "One square is one byte of one parameter: " + ", ".join(
        f"{parts.total:g} with {precision.recipe(one).title}" for one, parts in totals.items()
    )
    draw = partial(_bytes, totals=totals)
    return figure(draw, caption=said.rstrip(".") + ".", name=name)


def _bytes(width: float, totals: Mapping[str | precision.Recipe, Parts]) -> str:
    page = Canvas(width, "The bytes of one parameter")
    most = max(int(parts.total + 0.999) for parts in totals.values())
    cell = min(30.0, (width - 60) / most)
    used = dict.fromkeys(part for parts in totals.values() for part in parts)
    page.bottom = page.legend([(part, _role_look(part)) for part in used], page.bottom) - 6
    rows = []
    for one, parts in totals.items():
        head = page.words(precision.recipe(one).title, bold=True, anchor="start")
        rows.append(page.stacked(head, _cells(page, parts, cell), gap=5, align="start"))
    page.at(page.stacked(*rows, gap=16, align="start"), 1, page.bottom + 8)
    return page.done(
        ". ".join(
            f"{precision.recipe(one).title}: "
            + ", ".join(f"{part} {parts.amount(part):g}" for part in parts)
            for one, parts in totals.items()
        )
    )


def _role_look(part: str) -> tuple[str, str]:
    return ROLES[PART_ROLES.get(part, part)]


def _cells(page: Canvas, parts: Parts, cell: float) -> Shape:
    """A part's bytes side by side, its number written into them; then their sum."""
    groups = []
    for part in parts:
        size = parts.amount(part)
        squares = [[_role_look(part)] * int(size)] if size >= 1 else [[_role_look(part)]]
        wide = cell if size >= 1 else max(2.0, size * cell)
        groups.append(page.grid(squares, cell=wide, high=min(cell, 26), hint=f"{part}: {size:g}"))
    total = page.words(f"= {parts.total:.4g}", bold=True, anchor="start")
    return page.beside(page.beside(*groups, gap=3), total, gap=10)


SAVED = {  # a tensor of activations.layer: how the picture calls it
    "norms": {"1. norm input": "first norm, input", "2. norm input": "second norm, input"},
    "attention": {
        "input": "projections, input",
        "queries": "queries",
        "keys": "keys",
        "softmax": "softmax, result",
        "values": "values",
        "projection input": "output projection, input",
    },
    "mlp": {
        "input": "first MLP matrix, input",
        "gate": "gate, its result",
        "up": "up, its result",
        "activated gate": "gate, activated",
        "activation input": "GELU, input",
        "second input": "last MLP matrix, input",
    },
}
BACK = (
    "A step much smaller than the gap is rounded back: in bf16 a weight of 1 stays 1, however "
    "often 0.001 is taken off."
)


def saved_by_a_layer(model: specs.Model, *, caption: str = "", name: str = "") -> Shown:
    """What a layer keeps for its backward, a square for h numbers a token: activations.layer."""
    parts = activations.layer(model, bytes_per_element=1)
    h = model.context * model.width
    rows = [
        (said, cast(Parts, parts[group]).amount(part) / h)
        for group, called in SAVED.items()
        for part, said in called.items()
        if part in cast(Parts, parts[group])
    ]
    said = (
        caption
        or f"A square is h numbers for each token: {sum(n for _, n in rows):g} squares"
        + (
            f", of which the softmax, with a s numbers, has {dict(rows)['softmax, result']:g} here."
            if "softmax, result" in dict(rows)
            else "."
        )
    )
    return figure(partial(_saved, rows=rows), caption=said, name=name)


def _saved(width: float, rows: list[tuple[str, float]]) -> str:
    page = Canvas(width, "What a layer keeps for backward")
    labels = [page.words(said, small=True, anchor="start") for said, _ in rows]
    left = max(label.wide for label in labels) + 14
    cell = min(52.0, (width - left - 40) / max(count for _, count in rows))
    top = page.bottom + 4
    for (said, count), label in zip(rows, labels, strict=True):
        squares = _part_squares(page, count, cell, said)
        page.at(label, 0, top)
        page.at(squares, left, top)
        low = top + 8 + page.small * 0.35
        note = "a s" if said.startswith("softmax") else f"{count:.3g} h".removeprefix("1 ")
        page.text(left + squares.wide + 8, low, note, size=page.small, quiet=True)
        top += 23
    return page.done(", ".join(f"{said}: {count:.3g} h" for said, count in rows))


def _part_squares(page: Canvas, count: float, cell: float, hint: str) -> Shape:
    """Whole squares, and a part of one."""
    whole, rest = int(count), count % 1
    shapes = [page.grid([["activations"] * whole], cell=cell, high=16, hint=hint)] if whole else []
    if rest:
        shapes.append(page.grid([["activations"]], cell=rest * cell, high=16, hint=hint))
    return page.beside(*shapes, gap=0)


def lost_step(*, caption: str = BACK, name: str = "") -> Shown:
    """Where 1 - 0.001 lands in bf16: the numbers around 1, and what is rounded to it."""
    return figure(_lost, caption=caption, name=name)


def _lost(width: float) -> str:
    page = Canvas(width, "The bf16 numbers around 1")
    below, above = 2.0**-8, 2.0**-7  # gaps on both sides of 1, a power of two
    least, most = 1 - 2.3 * below, 1 + 1.4 * above
    line = page.bottom + 62

    def at(value: float) -> float:
        return (value - least) / (most - least) * width

    low, high = at(1 - below / 2), at(1 + above / 2)
    page.area(f"M{place(low, line - 12)}H{high:.1f}V{line + 12:.1f}H{low:.1f}Z", ROLES["weights"])
    page.line(f"M{place(0, line)}H{width:.1f}", opacity=0.6)
    for value in (1 - 2 * below, 1 - below, 1.0, 1 + above):
        page.line(f"M{place(at(value), line - 12)}v24", width=2)
        words, half = f"{value:.4g}", page.wide(f"{value:.4g}", page.small) / 2
        x = min(max(at(value), half), width - half)
        page.text(x, line + 30, words, anchor="middle", size=page.small)
    step = page.at(page.space(), at(1 - 0.001), line - 14)
    page.arc(step, page.at(page.space(), at(1.0), line - 14))
    page.text(at(1 - 0.001) - 8, line - 22, "1 − 0.001", anchor="end", size=page.small, bold=True)
    page.bottom = line + 30
    page.note("all of the coloured range is rounded to 1")
    return page.done("0.992, 0.996, 1 and 1.008 are neighbours; 0.999 is rounded to 1.")
