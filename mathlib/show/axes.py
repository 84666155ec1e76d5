"""Charts on matplotlib axes, for a paper or a talk: the data of the page's picture with its
colours, dashes, markers and hatches, in the style of book.mplstyle.

matplotlib is loaded when a chart is asked for its axes. A function here has the name that a Chart
gives as its kind.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

from mathlib.checks import ceil_div
from mathlib.schedule.simulate import Timeline
from mathlib.show import gantt, memory_chart, plot, roof, says, svg
from mathlib.show.kit.sheet import WARNING, ink
from mathlib.show.roles import ROLES, Look, looks

STYLE = "mathlib.show.book"
MARKERS = dict(zip(plot.MARKERS, "os^D", strict=True))
Axes = Any  # matplotlib's
Show = Callable[[float], str]
Span = tuple[float, float]
BESIDE = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
ROW, ROWS = 0.33, ("bars", "timeline", "schedule")  # inches of a row, kinds of charts with rows
NARROW = 1 / 45  # of the time: a shorter box has no number


def drawn(ax: Axes, title: str, kind: str, data: tuple[Any, ...]) -> Axes:
    """The chart on the axes given, or on some of its own, high enough for its rows."""
    from matplotlib import pyplot

    with pyplot.style.context(STYLE):
        own = ax is None
        ax = pyplot.figure().add_subplot() if own else ax
        ax.set_title(title, wrap=True)
        globals()[kind](ax, *data)
        if own and kind in ROWS:
            high = ROW * abs(ax.get_ylim()[1] - ax.get_ylim()[0])
            ax.figure.set_figheight(max(high + 1, 2))
    return ax


def curves(ax: Axes, chart: plot.Curves) -> None:
    """A line with its markers for each curve; limit, band and mark with their names."""
    for name, points in chart.series.items():
        colour, dash, marker = chart.look(name)
        drawn_as = {"color": colour, "marker": MARKERS[marker], "label": name}
        every = ceil_div(len(points), plot.MARKED)
        dashes = [float(part) / 2.5 for part in dash.split()]  # in widths of the kit's line
        ax.plot(*zip(*points, strict=True), **drawn_as, dashes=dashes, markevery=every)
        if chart.lowest:
            ring = {"marker": "o", "ms": 11, "mfc": "none", "mec": colour, "mew": 1.2}
            ax.plot(*zip(*plot.least(points), strict=True), ls="", **ring)
    if chart.limit is not None:
        _limit(ax.axhline, chart.limit, chart.limit_label, chart.show_y, chart.limit_quiet)
    if chart.band:
        ax.axvspan(*chart.band, color="#888888", alpha=0.22, lw=0, label=chart.band_label)
    if chart.mark is not None:
        ax.axvline(chart.mark, color="black", ls="--", lw=1, label=chart.mark_label)
    _scales(ax, chart.axes(), (chart.x_title, chart.y_title), (chart.show_x, chart.show_y))
    if chart.equal:
        ax.set_aspect("equal")
    _legend(ax)


def roofline(ax: Axes, chart: roof.Roof) -> None:
    """The roof, and the operations beneath it, a marker for each group."""
    x, y = chart.axes()
    roof_points = (x.low, chart.ridge, x.high), (x.low * chart.bandwidth, chart.peak, chart.peak)
    ax.plot(*roof_points, color="black", label=f"peak: {says.speed(chart.peak)}")
    label = f"ridge: {says.number(chart.ridge)} FLOP a byte"
    ax.axvline(chart.ridge, color="black", ls=":", lw=1, label=label)
    styles = roof.styles(chart.groups)
    for (name, group), marker in zip(chart.groups.items(), cycle(MARKERS.values()), strict=False):
        points = [(a, b) for _, a, b in group]
        ax.plot(*zip(*points, strict=True), marker, ms=6, color=styles[name], label=name)
    _scales(ax, (x, y), (roof.X_TITLE, roof.Y_TITLE), (says.short, says.speed))
    _legend(ax)


def bars(
    ax: Axes,
    rows: Sequence[svg.Row],
    show: Show,
    unit: str,
    limit: float | None = None,
    limit_label: str = "",
) -> None:
    """Stacked bars with their sums; a cross on every bar that passes the limit."""
    styles = looks(part for _, parts in rows for part in parts)
    for row, (_, parts) in enumerate(rows):
        end = 0.0
        for part, value in parts.items():
            ax.barh(row, value, left=end, height=0.62, label=part, **_fill(styles[part]))
            end += value
        over = limit is not None and end > limit
        ax.annotate(show(end), (end, row), **BESIDE | ({"xytext": (9, 0)} if over else {}))
        if over:
            ax.plot(end, row, "x", ms=8, mew=2.5, color=WARNING, label="_over")
    if limit is not None:
        _limit(ax.axvline, limit, limit_label, show)
    most = max([*(sum(parts.values()) for _, parts in rows), limit or 0])
    _rows(ax, [label for label, _ in rows])
    _time(ax, most, unit, show, room=1.25)
    _legend(ax, aside=True)


def timeline(
    ax: Axes, groups: Sequence[Sequence[svg.Line]], ends: Sequence[float], messages: str
) -> None:
    """A row for each rank's own work, and rows for its messages with their numbers."""
    lines = [line for group in groups for line in group]
    styles = looks(role for _, events in lines for role, *_ in events)
    last = max((b for _, events in lines for _, _, b, _ in events), default=0.0)
    for row, (label, events) in enumerate(lines):
        for role in dict.fromkeys(role for role, *_ in events):
            spans = [(a, b) for one, a, b, _ in events if one == role]
            _boxes(ax, row, spans, styles[role], label=role)
        if label == messages:
            for role, a, b, what in events:
                _number(ax, (a, b), row, what.rpartition(" ")[2], styles[role][0], last)
    top = 0
    for group, end in zip(groups, ends, strict=False):
        if end:
            ax.vlines(end, top - 0.5, top + len(group) - 0.5, color="black", ls=":")
        top += len(group)
    names = [label for label, _ in lines]  # each of several lines of messages has the same
    _rows(ax, [b if a != b else "" for a, b in pairwise(["", *names])])
    _time(ax, last, "time", says.time)
    _legend(ax, aside=True)


def schedule(ax: Axes, runs: Mapping[str, Timeline], seen: gantt.Seen) -> None:
    """A row for each stage with its actions, beneath them the activations that it holds."""
    last = max([seen.until, *(one.total for one in runs.values())])
    held = {"after_input": seen.after_input}
    stages = [(one, s) for one in runs.values() for s in range(one.schedule.stages)]
    most = max(one.peak(s, **held) for one, s in stages) or 1
    labels: list[str] = []
    for heading, one in runs.items():
        if heading:
            ax.text(0, len(labels), f"{heading}: {gantt.came_out(one, seen)}", va="center")
            labels.append("")
        _stages(ax, one, seen, len(labels), last, most)
        labels += [f"stage {s}" for s in range(one.schedule.stages)]
        if seen.brackets.get(heading):
            _brackets(ax, seen.brackets[heading], len(labels))
            labels.append("")
    _rows(ax, labels)
    _time(ax, last, seen.axis, seen.show)
    _legend(ax, aside=True, entries=gantt.legend(runs.values(), seen))


def _stages(ax: Axes, one: Timeline, seen: gantt.Seen, top: int, last: float, most: float) -> None:
    """The rows of one timeline, its messages, and a line at what is now."""
    for s in range(one.schedule.stages):
        idle = list(gantt.free(one, s, seen.now))
        _boxes(ax, top + s, idle, ROLES["idle"], alpha=gantt.IDLE, memory=seen.memory)
        _actions(ax, one, s, seen, top + s, last)
        done = [time for time in gantt.updates(one, s) if time <= seen.now]
        colour = ROLES["weights"][0]
        ax.vlines(done, top + s - 0.45, top + s + 0.15, color=colour, lw=2.5, zorder=3)
        if seen.memory:
            _held(ax, one, s, seen, top + s + 0.45, 0.27 / most)
    sent = list(gantt.messages(one, seen)) if one.times.links else []
    across = [time for _, _, a, b in sent for time in (a, b, math.nan)]
    down = [top + row for a, b, *_ in sent for row in (a, b, math.nan)]
    if sent:
        ax.plot(across, down, color=ROLES["communication"][0], lw=0.9, zorder=2.5)
    if seen.now < one.total:
        foot, label = top + one.schedule.stages - 0.5, f"now: {seen.show(seen.now)}"
        ax.vlines(seen.now, top - 0.5, foot, color="black", zorder=4, label=label)


def _actions(ax: Axes, one: Timeline, s: int, seen: gantt.Seen, row: int, last: float) -> None:
    """A stage's actions as boxes with their micro-batches; pale what is not yet, not followed."""
    lighter, spans = gantt.later(one, s), dict[tuple[Look, float], list[Span]]()
    for action, begin, end in gantt.timed(one, s):
        look = gantt.box_look(action.kind, lighter(action))
        pale = begin >= seen.now or seen.follow not in (None, action.micro_batch)
        spans.setdefault((look, gantt.PALE if pale else 1.0), []).append((begin, end))
        if not pale:
            middle = row - 0.15 * seen.memory
            _number(ax, (begin, end), middle, str(action.micro_batch), look[0], last)
    for (look, alpha), boxes in spans.items():
        _boxes(ax, row, boxes, look, alpha=alpha, memory=seen.memory)


def _held(ax: Axes, one: Timeline, s: int, seen: gantt.Seen, base: float, high: float) -> None:
    """What a stage holds over time, up from a base, and the most of it."""
    steps = [*one.alive(s, after_input=seen.after_input), (one.total, 0.0)]
    times, amounts = zip(*steps, strict=True)
    tops = [base - amount * high for amount in amounts]
    fill = {"step": "post", "color": ROLES["activations"][0], "lw": 0, "label": "_held"}
    ax.fill_between(times, tops, base, **fill)
    ax.annotate(says.plain(max(amounts)), (one.total, base - 0.15), **BESIDE, fontsize="small")


def _brackets(ax: Axes, brackets: Iterable[gantt.Bracket], row: int) -> None:
    """Spans of time beneath the stages, and what they are called."""
    for begin, end, words in brackets:
        ax.plot([begin, begin, end, end], [row - 0.4, row - 0.2, row - 0.2, row - 0.4], "k-", lw=1)
        ax.text((begin + end) / 2, row - 0.1, words, ha="center", va="top", weight="bold")


def memory(
    ax: Axes,
    rows: Sequence[memory_chart.Row],
    marks: Sequence[memory_chart.Mark],
    limit: float | None,
    limit_label: str,
    peak: bool,
    axis: str,
) -> None:
    """Bytes alive after each event, a band for each kind; where the phases end."""
    base, edges = [0.0] * len(rows), range(len(rows) + 1)
    for kind, look in looks(memory_chart.kinds(rows)).items():
        upper = [low + row[kind] for low, row in zip(base, rows, strict=True)]
        ax.stairs(upper, edges, baseline=base, fill=True, label=kind, **_fill(look) | {"lw": 0})
        base = upper
    starts = [0, *(end for end, _ in marks)]
    for end in starts[1:]:
        ax.axvline(end, color="black", ls=":", lw=0.8)
    if peak:
        event = memory_chart.fullest(rows)
        ax.plot(event + 0.5, base[event], "ko")
        above = BESIDE | {"va": "bottom"}
        ax.annotate(says.size(base[event]), (event + 0.5, base[event]), **above, weight="bold")
    if limit is not None:
        _limit(ax.axhline, limit, limit_label, says.size)
    _level(ax.yaxis, svg.ticks(0, max([*base, limit or 0])), says.size)
    long = [(a, b, name) for a, (b, name) in zip(starts, marks, strict=False) if b > a]
    ax.set_xticks([(a + b) / 2 for a, b, _ in long], [_brief(*one, len(rows)) for one in long])
    ax.tick_params("x", length=0)
    ax.grid(visible=False, axis="x")
    ax.set(xlim=(0, len(rows)), ylim=(0, None), xlabel=axis, ylabel="bytes alive")
    _legend(ax, aside=True)


def _brief(start: int, end: int, name: str, events: int) -> str:
    """A phase's name as far as it has room."""
    name = name if end - start > 0.015 * len(name) * events else memory_chart.SHORT.get(name, name)
    return name if end - start > 0.015 * len(name) * events else ""


def _fill(look: Look) -> dict[str, Any]:
    """A role's colour with its hatch."""
    return {"facecolor": look[0], "hatch": 2 * look[1] or None}


def _boxes(
    ax: Axes, row: float, spans: Sequence[Span], look: Look, memory: bool = False, **more: Any
) -> None:
    """Spans of time in a row, in its upper part where what is held lies beneath."""
    widths = [(a, b - a) for a, b in spans]
    low, high = (row - 0.45, 0.6) if memory else (row - 0.4, 0.8)
    ax.broken_barh(widths, (low, high), **_fill(look), **more)


def _number(ax: Axes, span: Span, row: float, word: str, colour: str, last: float) -> None:
    """What stands in a box, if it is wide enough."""
    if span[1] - span[0] > NARROW * len(word) * last:
        style = {"ha": "center", "va": "center", "fontsize": 7}
        ax.text(sum(span) / 2, row, word, color=ink(colour), **style)


def _limit(
    line: Callable[..., Any], limit: float, label: str, show: Show, quiet: bool = False
) -> None:
    """A line that must not be passed, or a quiet one to compare with."""
    if quiet:
        line(limit, color="black", alpha=0.8, lw=1, label="_quiet")
    else:
        line(limit, color=WARNING, ls="--", label=f"{label}: {show(limit)}")


def _scales(
    ax: Axes, axes: Iterable[plot.Axis], titles: tuple[str, str], shows: tuple[Show, Show]
) -> None:
    """Scales, ticks and titles of both axes, as the page has them."""
    ax.set(xlabel=titles[0], ylabel=titles[1])
    for axis, name, show in zip(axes, "xy", shows, strict=True):
        getattr(ax, f"set_{name}scale")("log" if axis.log else "linear")
        _level(getattr(ax, f"{name}axis"), axis.ticks, show)


def _level(axis: Any, ticks: Sequence[float], show: Show) -> None:
    """Ticks and the words for them."""
    axis.set_ticks(ticks)
    axis.set_major_formatter(lambda value, _: show(value))
    axis.minorticks_off()


def _rows(ax: Axes, labels: Sequence[str]) -> None:
    """A name for each row, from the top down."""
    ax.set_yticks(range(len(labels)), [textwrap.fill(label, 28) for label in labels])
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.tick_params("y", length=0)
    ax.grid(visible=False, axis="y")


def _time(ax: Axes, last: float, title: str, show: Show, room: float = 1.02) -> None:
    """The level axis of what has rows: from nothing to the end, with room for words."""
    _level(ax.xaxis, svg.ticks(0, last, 6), show)
    ax.set_xlim(0, (last or 1) * room)
    ax.set_xlabel(title)


def _legend(ax: Axes, aside: bool = False, entries: Iterable[tuple[str, Look]] = ()) -> None:
    """Each name once, where there are several; aside: right of the chart."""
    from matplotlib.patches import Patch

    handles, labels = ax.get_legend_handles_labels()
    named = dict(zip(labels[::-1], handles[::-1], strict=True))
    named = {label: named[label] for label in dict.fromkeys(labels)}
    named = {name: Patch(**_fill(look)) for name, look in entries} | named
    if len(named) > 1:
        place = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if aside else {}
        ax.legend(list(named.values()), list(named), **place)
