"""Schemes of the pipeline chapter: a model cut by layers, and three ways to shard it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mathlib.checks import divides, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.sheet import Sheet
from mathlib.show.roles import ROLES
from mathlib.show.tables import Shown

CUT = (
    "Each stage holds some layers whole. Activations go down the row, their gradients come back, "
    "and nothing else is sent."
)
WAYS = (
    "Data parallelism copies every layer, tensor parallelism cuts every layer, a pipeline cuts "
    "between layers: so only a pipeline is silent inside of a stage."
)
Part = tuple[float, float, float, float]  # of a device's model: from the left, from the top; sizes


class Way(NamedTuple):
    """One way to deal out a model: what rank r of n holds, and what it sends."""

    part: Callable[[int, int], Part]
    sends: str
    holds: str  # for those who do not see it


def _slice(r: int, n: int) -> Part:
    return r / n, 0, 1 / n, 1


KINDS = {
    "Data": Way(
        lambda r, n: (0, 0, 1, 1), "sends gradients of all layers, once a step", "data, all"
    ),
    "Tensor": Way(
        _slice, "sends activations, four times in every layer", "tensor, a shard of each"
    ),
    "Pipeline": Way(
        lambda r, n: (0, r / n, 1, 1 / n),
        "sends activations, once at each border",
        "pipeline, {each} whole",
    ),
}


def cut(layers: int = 8, stages: int = 4, *, caption: str = CUT, name: str = "") -> Shown:
    """Layers distributed to stages, and what travels between those."""
    p = whole("stages", stages, least=2)
    each = whole("layers", layers) // divides("stages", p, "layers", layers)
    return figure(partial(_cut, p=p, each=each), caption=caption, name=name)


def _cut(width: float, p: int, each: int) -> str:
    page = Canvas(width, f"{p * each} layers on {p} stages")
    kinds = ("weights", "activations", "gradients")
    page.bottom = page.legend([(kind, ROLES[kind]) for kind in kinds], page.bottom)
    gap = 20.0 if page.narrow else 54.0
    wide = (width - 8 - gap * (p - 1)) / p
    stages = []
    for s in range(p):
        rows = [
            page.box(f"layer {s * each + i + 1}", role="weights", wide=wide) for i in range(each)
        ]
        head = page.words(f"stage {s}", bold=True)
        stages.append((head, page.stacked(*rows, gap=6)))
    page.row(*(page.stacked(head, rows, gap=8) for head, rows in stages), gap=gap, above=10)
    for (_, one), (_, other) in zip(stages, stages[1:], strict=False):
        first, last = one.inner[0][0], one.inner[-1][0]
        page.arrow(first, other.inner[0][0], role="activations", heavy=True)
        page.arrow(other.inner[-1][0], last, role="gradients", heavy=True)
    return page.done(
        f"{p} stages of {each} layers; activations go from each stage to the next, gradients back"
    )


def ways(layers: int = 8, devices: int = 4, *, caption: str = WAYS, name: str = "") -> Shown:
    """What a device holds of the model with data, tensor and pipeline parallelism."""
    n = whole("devices", devices, least=2)
    divides("devices", n, "layers", whole("layers", layers))
    return figure(partial(_ways, L=layers, n=n), caption=caption, name=name)


def _ways(width: float, L: int, n: int) -> str:
    page = Canvas(width, f"A model of {L} layers on {n} devices")
    room = width if page.narrow else width / len(KINDS) - 14
    wide = min(46.0, (room - 8 * (n - 1)) / n)
    panels = []
    for kind, way in KINDS.items():
        devices = (_device(way.part(r, n), L, wide) for r in range(n))
        panels.append(page.panel(kind, page.beside(*devices, gap=8), note=way.sends))
    page.flow(*panels, gap=14, above=10)
    holds = "; ".join(way.holds for way in KINDS.values()).format(each=L // n)
    return page.done(f"Of {L} layers, each of {n} devices holds: {holds}")


def _device(part: Part, L: int, wide: float) -> Shape:
    """A device's frame with a line for each layer, and what it holds of them."""
    high = 13.0 * L
    left, top, across, down = part

    def draw(page: Sheet, x: float, y: float) -> None:
        page.rect(
            x + left * wide, y + top * high, across * wide, down * high, ROLES["weights"], "weights"
        )
        for row in range(L):
            page.frame(x, y + row * 13.0, wide, 13.0)

    return Shape(wide, high, draw)
