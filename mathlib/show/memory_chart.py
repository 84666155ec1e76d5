"""The memory of a step over time, as stacked areas: one column an event, one colour a kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mathlib.show import says, svg
from mathlib.show.figures import Chart, both, figure_html
from mathlib.show.kit.sheet import Sheet, number, place
from mathlib.show.roles import looks

HIGH = 230.0  # of the areas
SHORT = {"forward": "fwd", "backward": "bwd"}
AXIS = "allocations and releases, in order"
Row = Mapping[str, float]  # bytes alive by kind
Mark = tuple[int, str]  # event at which a phase ended, its name


@dataclass(frozen=True)
class Frame:
    """Where the areas lie on a sheet, and how many units an event and a byte take."""

    left: float
    bottom: float
    event: float
    byte: float


def memory_line(
    rows: Sequence[Row],
    marks: Sequence[Mark],
    *,
    title: str,
    limit: float | None = None,
    limit_label: str = "limit",
    peak: bool = False,
    axis: str = AXIS,
    caption: str = "",
    name: str = "",
) -> Chart:
    """Bytes alive after every allocation and release; `marks` are (event at which a phase ended,
    its name). `peak` marks the fullest event with its bytes. `limit` is a line with its bytes,
    named at the left, where a step is still low.
    """
    said = _said(rows, marks)
    draw = partial(_memory_line, rows=rows, marks=marks, title=title, limit=limit, axis=axis)
    draw = partial(draw, peak=peak, limit_label=limit_label)
    html = figure_html(both(partial(draw, said=said)), caption, name)
    told = rows, marks, limit, limit_label, peak, axis
    return Chart(html, f"{title}. {said}", title, "memory", *told)


def _memory_line(
    width: float,
    rows: Sequence[Row],
    marks: Sequence[Mark],
    title: str,
    limit: float | None,
    limit_label: str,
    axis: str,
    peak: bool,
    said: str,
) -> str:
    page = Sheet(width)
    styles = looks(kinds(rows))
    top = max([*(sum(row.values()) for row in rows), limit or 0]) or 1
    y = page.legend(list(styles.items()), page.title(title)) + 26
    page.text(0, y - 13, "bytes alive", size=page.small, quiet=True)
    levels = [(tick, says.size(tick)) for tick in svg.ticks(0, top)]
    left = max(page.wide(words, page.small) for _, words in levels) + 10
    frame = Frame(left, y + HIGH, (width - left - 4) / len(rows), HIGH / top)
    _areas(page, rows, frame)
    _levels(page, levels, frame)
    _phases(page, marks, frame)
    if peak:
        _peak(page, rows, frame)
    if limit is not None:
        high = frame.bottom - limit * frame.byte
        page.limit(f"M{place(left, high)}H{number(width - 4)}")
        words = f"{limit_label}: {says.size(limit)}"
        high += page.small + 3 if high < y + 20 else -5  # the axis' words stand above
        page.text(left + 6, high, words, size=page.small, bold=True)
    middle = (width + left) / 2
    low = frame.bottom + 50
    page.text(middle, low, axis, anchor="middle", size=page.small, quiet=True)
    return page.svg(title, said + ".", low + 7)


def kinds(rows: Sequence[Row]) -> list[str]:
    """The kinds that live at some moment."""
    return [kind for kind in rows[0] if any(row[kind] for row in rows)]


def fullest(rows: Sequence[Row]) -> int:
    """The event after which the most bytes are alive."""
    return max(range(len(rows)), key=lambda event: sum(rows[event].values()))


def _peak(page: Sheet, rows: Sequence[Row], frame: Frame) -> None:
    """A dot on the fullest event, and its bytes on that side that has room."""
    event = fullest(rows)
    most = sum(rows[event].values())
    x, y = frame.left + (event + 0.5) * frame.event, frame.bottom - most * frame.byte
    words = says.size(most)
    page.mark(x, y, "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "currentColor", words)
    fits = x + page.wide(words, page.small, bold=True) + 10 < page.width
    at, anchor = (x + 8, "start") if fits else (x - 8, "end")
    page.text(at, y - 5, words, anchor=anchor, size=page.small, bold=True)


def _said(rows: Sequence[Row], marks: Sequence[Mark]) -> str:
    """The peak in words: how much, when, and what it is made of."""
    peak = fullest(rows)
    phase = next(name for end, name in marks if peak < end)
    inside = ", ".join(f"{kind} {says.size(rows[peak][kind])}" for kind in kinds(rows))
    return f"Peak {says.size(sum(rows[peak].values()))} during {phase}: {inside}"


def _levels(page: Sheet, levels: Sequence[tuple[float, str]], frame: Frame) -> None:
    """Bytes on the upright axis, and quiet lines through the picture."""
    for tick, words in levels:
        y = frame.bottom - tick * frame.byte
        page.text(frame.left - 7, y + 4.5, words, anchor="end", size=page.small, quiet=True)
        page.line(f"M{place(frame.left, y)}H{number(page.width - 4)}", opacity=0.15)


def _phases(page: Sheet, marks: Sequence[Mark], frame: Frame) -> None:
    """A line where each phase ends, and its name beneath, on two lines where one is too short."""
    start = 0
    ends = [0.0, 0.0]  # where the words of each line end
    for end, name in marks:
        x = frame.left + end * frame.event
        page.line(
            f"M{place(x, frame.bottom - HIGH)}V{number(frame.bottom + 4)}",
            opacity=0.5,
            dash="3 3",
        )
        middle = frame.left + (start + end) / 2 * frame.event
        wide = (end - start) * frame.event
        word = name if page.wide(name, page.small) < wide else SHORT.get(name, name)
        half = page.wide(word, page.small) / 2
        row = 0 if middle - half > ends[0] else 1
        free = middle - half > ends[row] and middle + half < page.width
        if wide > 16 and free:  # a phase too narrow for its name is told by its neighbours
            ends[row] = middle + half + 4
            low = frame.bottom + 16 + 15 * row
            page.text(middle, low, word, anchor="middle", size=page.small)
        start = end


def _areas(page: Sheet, rows: Sequence[Row], frame: Frame) -> None:
    """One band a kind, each on top of those before it."""
    base = [0.0] * len(rows)
    for kind, style in looks(kinds(rows)).items():
        upper = [low + row[kind] for low, row in zip(base, rows, strict=True)]
        points = _steps(upper, frame) + _steps(base, frame)[::-1]
        page.area("M" + "L".join(points) + "Z", style)
        base = upper


def _steps(values: Sequence[float], frame: Frame) -> list[str]:
    """The corners of a line that jumps at every event; jumps of less than a tenth of a unit are
    left out.
    """
    points: list[str] = []
    last = ""
    for event, value in enumerate(values):
        y = f"{frame.bottom - value * frame.byte:.1f}"
        if y == last:
            continue
        if last:
            points.append(f"{frame.left + event * frame.event:.1f} {last}")
        points.append(f"{frame.left + event * frame.event:.1f} {y}")
        last = y
    points.append(f"{frame.left + len(values) * frame.event:.1f} {last}")
    return points
