"""Schemes of the autograd chapter: values forward, gradients backward, the order they come in."""

from collections.abc import Mapping
from functools import partial

from mathlib.compute.autodiff import Value
from mathlib.show import drawing
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.shapes import NEUTRAL
from mathlib.show.roles import ROLES
from mathlib.show.says import plain
from mathlib.show.tables import Shown

FLOW = (
    "Values go down the thin arrows; gradients come back up the coloured ones, and where two "
    "meet they are added."
)
ARRIVAL = (
    "A gradient goes on only when all its shares have arrived, so values are done in the reverse "
    "of the order in which they were made."
)
Made = Mapping[str, Value]  # every value by its name; the last one is the loss


def values_and_gradients(made: Made, *, caption: str = FLOW, name: str = "") -> Shown:
    """A graph of numbers: what each value is, and the gradient that comes back to it."""
    *_, loss = made.values()
    gradients = {value: rows[0][0] for value, rows in loss.backward().items()}
    draw = partial(_values_and_gradients, made=made, gradients=gradients)
    return figure(draw, caption=caption, name=name)


def _values_and_gradients(width: float, made: Made, gradients: Mapping[Value, float]) -> str:
    page = Canvas(width, "Values forward, gradients backward")
    names = {value: name for name, value in made.items()}
    number = {value: i for i, value in enumerate(made.values())}
    edges = [(number[p], number[v]) for v in made.values() for p in dict(v.pulls)]
    values = list(made.values())
    boxes = {i: _box(page, names[v], v, gradients.get(v)) for i, v in enumerate(values)}
    turned = [(b, a) for a, b in edges]  # from the loss upwards: a leaf stands where it is used
    for level in reversed(drawing.layers(list(boxes), turned)):
        page.row(*(boxes[i] for i in level), gap=22 if page.narrow else 60, above=42)
    for a, b in edges:
        both = values[a] in gradients and values[b] in gradients
        page.arrow(boxes[a], boxes[b], bend=-0.1 if both else 0)
        if both:
            page.arrow(boxes[b], boxes[a], bend=-0.1, role="gradients")
    return page.done(
        "; ".join(
            f"{name} = {plain(value.rows[0][0])}"
            + (f", gradient {plain(gradients[value])}" if value in gradients else "")
            for name, value in made.items()
        )
    )


def _box(page: Canvas, name: str, value: Value, gradient: float | None) -> Shape:
    note = f"= {plain(value.rows[0][0])}"
    if gradient is None:
        return page.box(name, note=note)
    return page.box(name, note=f"{note}\ngradient {plain(gradient)}", role="gradients")


def order_of_arrival(made: Made, *, caption: str = ARRIVAL, name: str = "") -> Shown:
    """The values in the order in which their gradients are complete."""
    *_, loss = made.values()
    arrived = loss.backward()
    names = {value: name for name, value in made.items()}
    order = [value for value in reversed(loss.graph()) if value in arrived]
    rows = [(names[value], arrived[value][0][0], not value.pulls) for value in order]
    return figure(partial(_order, rows=rows), caption=caption, name=name)


def _order(width: float, rows: list[tuple[str, float, bool]]) -> str:
    page = Canvas(width, "The order in which gradients arrive")
    kinds = [("a leaf keeps it", ROLES["gradients"]), ("it is passed on", NEUTRAL)]
    page.bottom = page.legend(kinds, page.bottom) - 24
    cards = []
    for turn, (name, gradient, leaf) in enumerate(rows, 1):
        role = "gradients" if leaf else ""
        card = page.box(name, note=f"gradient {plain(gradient)}", role=role)
        cards.append(page.stacked(page.words(f"{turn}.", quiet=True, small=True), card, gap=3))
    page.flow(*cards, gap=26, above=20)
    for one, other in zip(cards, cards[1:], strict=False):
        if page.places[one].y == page.places[other].y:
            page.arrow(one.inner[1][0], other.inner[1][0])
    return page.done(", then ".join(f"{name} with {plain(g)}" for name, g, _ in rows))
