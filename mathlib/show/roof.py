"""A roofline: FLOP/s against FLOP for each byte, with operations as points beneath the roof."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mathlib.checks import InputError, positive
from mathlib.show import says
from mathlib.show.figures import Chart, both, figure_html
from mathlib.show.kit.sheet import Sheet, number, place
from mathlib.show.plot import MARKERS, Axis, frame
from mathlib.show.roles import SPARE, UNNAMED, look, looks

HIGH = 270.0  # of the frame
X_TITLE, Y_TITLE = "intensity: FLOP for each byte", "FLOP/s"
Point = tuple[str, float, float]  # what, intensity, FLOP/s


@dataclass(frozen=True)
class Roof:
    """Points by group, and the roof above them."""

    groups: Mapping[str, Sequence[Point]]
    peak: float
    bandwidth: float
    title: str

    @property
    def ridge(self) -> float:
        return self.peak / self.bandwidth

    def axes(self) -> tuple[Axis, Axis]:
        points = [one for group in self.groups.values() for one in group]
        across = [x for _, x, _ in points] + [self.ridge]
        low, high = min(across) / 2, max(across) * 4
        up = [y for _, _, y in points] + [self.peak * 1.6, self.bandwidth * low]
        return Axis([low, high], log=True), Axis(up, log=True)

    def said(self) -> str:
        told = [
            f"{what}: {says.speed(y)} at {says.number(x)} FLOP a byte"
            for group in self.groups.values()
            for what, x, y in group
        ]
        ridge = f"Ridge at {says.number(self.ridge)} FLOP a byte, peak {says.speed(self.peak)}"
        return ". ".join([ridge, *told]) + "."


def roof_html(
    groups: Mapping[str, Sequence[Point]],
    *,
    peak: float,
    bandwidth: float,
    title: str,
    caption: str = "",
    name: str = "",
) -> str:
    """The picture as HTML: every group has a colour and a marker."""
    chart = Roof(groups, positive("peak", peak), positive("bandwidth", bandwidth), title)
    for group in groups.values():
        for what, x, y in group:
            if min(x, y) <= 0:
                raise InputError(f"groups: {what} lies at {x}, {y}; expected numbers above 0")
    return figure_html(both(partial(_roof, chart=chart)), caption, name)


def roof_chart(
    groups: Mapping[str, Sequence[Point]],
    *,
    peak: float,
    bandwidth: float,
    title: str,
    caption: str = "",
    name: str = "",
) -> Chart:
    """The picture as the last line of a cell."""
    given = {"title": title, "caption": caption, "name": name}
    words = f"{title}: ridge at {says.number(peak / bandwidth)} FLOP a byte; " + ", ".join(groups)
    html = roof_html(groups, peak=peak, bandwidth=bandwidth, **given)
    return Chart(html, words, title, "roofline", Roof(groups, peak, bandwidth, title))


def styles(groups: Iterable[str]) -> dict[str, str]:
    """A part of the model has its own colour, any other group one that means nothing else."""
    told = looks(groups)
    return {
        name: told[name][0] if look(name) != UNNAMED else SPARE[place_ % len(SPARE)][0]
        for place_, name in enumerate(told)
    }


def _roof(width: float, chart: Roof) -> str:
    page = Sheet(width)
    x, y = chart.axes()
    colours = styles(chart.groups)
    top = page.title(chart.title)
    if len(colours) > 1:
        top = page.legend([(name, (colour, "")) for name, colour in colours.items()], top)
    page.text(0, top + 12, Y_TITLE, size=page.small, quiet=True)
    top += 26
    numbers = [says.speed(tick).removesuffix("FLOP/s") for tick in y.ticks]
    x.spread(max(page.wide(words, page.small) for words in numbers) + 10, width - 16)
    y.spread(top + HIGH, top)
    frame(page, x, y, numbers, [says.short(tick) for tick in x.ticks], X_TITLE)
    _line(page, chart, x, y)
    for number_, (name, group) in enumerate(chart.groups.items()):
        marker = MARKERS[number_ % len(MARKERS)]
        for what, a, b in group:
            hint = f"{what}: {says.number(a)} FLOP a byte, {says.speed(b)}"
            page.mark(x.place(a), y.place(b), marker, colours[name], hint)
    return page.svg(chart.title, chart.said(), y.start + 44)


def _line(page: Sheet, chart: Roof, x: Axis, y: Axis) -> None:
    """The roof: up along the memory to the ridge, then level."""
    corner = place(x.place(chart.ridge), y.place(chart.peak))
    start = place(x.place(x.low), y.place(x.low * chart.bandwidth))
    page.line(f"M{start}L{corner}L{number(x.stop)} {number(y.place(chart.peak))}", width=2)
    foot = number(y.start)
    page.line(f"M{corner}V{foot}", opacity=0.5, dash="2 3")
    words = f"ridge: {says.number(chart.ridge)}"
    page.text(x.place(chart.ridge) + 6, y.start - 8, words, size=page.small, quiet=True)
    high = y.place(chart.peak) - 8
    page.text(x.stop, high, says.speed(chart.peak), anchor="end", size=page.small, bold=True)
