"""Every chart of data draws the same on matplotlib axes: what the artists hold is read back and
compared with what the chart was given.
"""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import pytest

matplotlib.use("agg")

from matplotlib import colors, pyplot  # noqa: E402

from mathlib import show  # noqa: E402
from mathlib.parts import Parts  # noqa: E402
from mathlib.schedule import orders  # noqa: E402
from mathlib.schedule.simulate import simulate  # noqa: E402
from mathlib.schedule.times import Times  # noqa: E402
from mathlib.show import axes, gantt, plot, says  # noqa: E402
from mathlib.show.charts import bars  # noqa: E402
from mathlib.show.figures import Chart  # noqa: E402
from mathlib.show.roles import ROLES, SPARE, looks  # noqa: E402
from mathlib.show.roof import roof_chart  # noqa: E402
from mathlib.show.schemes import compute  # noqa: E402

NO_DATA = {"drawing.graph", "figures.figure", "tables.table", "tables.source"}  # schemes, tables
SERIES = {"ring": [(2, 1e-3), (8, 2e-3), (64, 9e-3)], "tree": [(2, 2e-3), (64, 3e-3)]}
TITLES = {"title": "T", "x_title": "ranks", "y_title": "time"}
ROWS = {"ZeRO-0": {"weights": 2.0, "optimizer": 12.0}, "ZeRO-3": {"weights": 0.5, "optimizer": 3}}
ALIVE = [{"weights": 2, "logits": 0, "activations": a} for a in (0, 5, 9, 1)]
SENT = {"ring": [{1: 5}, {2: 5}, {0: 7}], "star": [{1: 3, 2: 4}, {}, {}]}
POINTS = {"mlp": [("up", 500.0, 1e14), ("down", 400.0, 9e13)], "norms": [("norm", 2.0, 4e12)]}
SPENT = Parts("Hours", "parameter", {"compute": 3.0, "latency": 1.0})
EVENTS = [
    SimpleNamespace(what=what, kind=kind, rank=rank, start=start, end=end)
    for what, kind, rank, start, end in [
        ("forward", "compute", 0, 0, 0.001),
        ("backward", "compute", 0, 0.001, 0.003),
        ("bucket 0", "communication", 0, 0.001, 0.004),
        ("bucket 1", "communication", 0, 0.002, 0.005),
        ("wait", "idle", 1, 0.001, 0.004),
    ]
]
RUN = simulate(orders.make("1f1b", stages=3, micro_batches=4), Times(message=0.5))


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def words(ax):
    """Titles, names of ticks, legend and words within."""
    ticks = [tick.get_text() for axis in (ax.xaxis, ax.yaxis) for tick in axis.get_ticklabels()]
    legend = ax.get_legend().get_texts() if ax.get_legend() else []
    inside = [text.get_text() for text in [*legend, *ax.texts]]
    return {ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel(), *ticks, *inside}


def lines(ax):
    return {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in ax.lines}


def stacked(ax, rows, colours):
    """(row, start, length, colour) of every part, as drawn and as given."""
    drawn = [
        (round(p.get_y() + p.get_height() / 2), p.get_x(), p.get_width(), p.get_facecolor())
        for p in ax.patches
    ]
    drawn = [(*place, colors.to_hex(colour)) for *place, colour in drawn]
    given = []
    for row, parts in enumerate(rows.values()):
        end = 0.0
        for part, value in parts.items():
            given.append((row, end, value, colours[part][0]))
            end += value
    return drawn == given


def spans(ax, role, alpha=None):
    """(middle of the row, start, end) of every box of a role's colour."""
    found = set()
    for drawn in ax.collections:
        if colors.to_hex(drawn.get_facecolor()[0] if len(drawn.get_facecolor()) else "w") != role:
            continue
        for path in drawn.get_paths() if drawn.get_alpha() == alpha else ():
            (a, low), (b, high) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            found.add((round((low + high) / 2, 6), round(float(a), 9), round(float(b), 9)))
    return found


def curves(ax):
    drawn = lines(ax)
    assert {name: drawn[name] for name in SERIES} == SERIES
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert drawn["limit: 5 ms"] == [(0, 0.005), (1, 0.005)] and drawn["mark"] == [(32, 0), (32, 1)]
    (band,) = ax.patches
    assert (band.get_x(), band.get_width(), band.get_label()) == (4, 12, "range")
    rings = [drawn[name][0] for name in drawn if name.startswith("_child")]
    assert rings == [(2, 1e-3), (2, 2e-3)], "around the lowest points"
    assert {"T", "ranks", "time", "ring", "tree", "range", "2", "50", "2 ms"} <= words(ax)
    ring, tree = (next(one for one in ax.lines if one.get_label() == name) for name in SERIES)
    assert [ring.get_color(), tree.get_color()] == [SPARE[0][0], SPARE[1][0]]
    assert ring.get_marker() != tree.get_marker() and tree.is_dashed() and not ring.is_dashed()


def byte_bars(ax):
    assert stacked(ax, ROWS, ROLES)
    drawn = lines(ax)
    assert drawn["one device: 10 B"] == [(10, 0), (10, 1)], "the limit, from top to foot"
    assert drawn["_over"] == [(14, 0)], "a cross on the bar beyond it"
    assert {"ZeRO-0", "14 B", "3.5 B", "bytes", "weights", "optimizer"} <= words(ax)
    hatches = {p.get_hatch() for p in ax.patches}
    assert len(hatches) == 2, "told apart in grey"


def parts_bar(ax):
    amounts = {part: SPENT.amount(part) for part in SPENT}
    assert stacked(ax, {"total": amounts}, looks(amounts))
    assert {"Hours", "total", "parameter", "compute", "latency"} <= words(ax)


def any_bars(ax):
    assert stacked(ax, ROWS, ROLES) and {"T", "14", "units"} <= words(ax)


def hours(ax):
    amounts = {part: SPENT.amount(part) for part in SPENT}
    assert stacked(ax, {"a job": amounts}, looks(amounts))
    assert {"a job", "4", "device-hours"} <= words(ax)


def ranks_timeline(ax):
    assert spans(ax, ROLES["forward"][0]) == {(0, 0, 0.001)}
    assert spans(ax, ROLES["backward"][0]) == {(0, 0.001, 0.003)}
    sent = {(1, 0.001, 0.004), (2, 0.002, 0.005)}
    assert spans(ax, ROLES["communication"][0]) == sent, "two lines, since both are in flight"
    assert spans(ax, ROLES["idle"][0]) == {(3, 0.001, 0.004)}
    assert {"rank 0", "messages", "rank 1", "0", "1", "2 ms", "time", "idle"} <= words(ax)
    ends = [
        tuple(map(tuple, one)) for c in ax.collections for one in getattr(c, "get_segments", list)()
    ]
    assert ends == [((0.001, -0.5), (0.001, 2.5))], "where rank 0 ends its forward"


def schedule_chart(ax):
    given = {"F": set(), "B": set()}
    for s, row in enumerate(RUN.schedule.actions):
        for action, a, b in zip(row, RUN.begins[s], RUN.ends[s], strict=True):
            given[action.kind].add((s - 0.15, round(a, 9), round(b, 9)))
    early = {kind: {box for box in boxes if box[1] < 6} for kind, boxes in given.items()}
    for kind, boxes in given.items():
        colour = gantt.box_look(kind)[0]
        assert spans(ax, colour, alpha=1.0) == early[kind]
        assert spans(ax, colour, alpha=gantt.PALE) == boxes - early[kind], "not there yet"
    idle = {(s - 0.15, a, b) for s in range(3) for a, b in gantt.free(RUN, s, 6)}
    assert spans(ax, ROLES["idle"][0], alpha=gantt.IDLE) == idle
    (sent,) = (one for one in ax.lines if one.get_color() == ROLES["communication"][0])
    legs = [list(zip(*sent.get_data(), strict=True))[i : i + 2] for i in range(0, 999, 3)]
    wanted = [[(t, a), (u, b)] for a, b, t, u in gantt.messages(RUN, gantt.Seen(now=6))]
    assert [leg for leg in legs if leg] == wanted
    held = [c for c in ax.collections if c.get_label() == "_held"]
    for s, strip in enumerate(held):
        up = s + 0.45 - strip.get_paths()[0].vertices[:, 1].min()
        assert up / 0.27 == pytest.approx(RUN.peak(s) / RUN.peak(0))
    assert len(held) == 3
    assert {"stage 0", "stage 2", "now: 6", "activations held", "time", "first"} <= words(ax)


def memory_line(ax):
    drawn = {patch.get_label(): patch.get_data() for patch in ax.patches}
    for kind in ("weights", "activations"):
        upper, edges, base = drawn[kind]
        assert list(upper - base) == [row[kind] for row in ALIVE] and list(edges) == [0, 1, 2, 3, 4]
    assert list(drawn["activations"][2]) == [2] * 4, "stands on the weights"
    assert "logits" not in drawn, "a kind that never lives"
    assert lines(ax)["most: 12 B"] == [(0, 12), (1, 12)]
    assert (2.5, 11) in [points[0] for points in lines(ax).values()], "the fullest event"
    assert {"forward", "backward", "11 B", "bytes alive", "10 B", "weights"} <= words(ax)
    assert list(ax.get_xticks()) == [1, 3]


def roofline(ax):
    drawn = lines(ax)
    assert {name: [(x, y) for _, x, y in points] for name, points in POINTS.items()} == {
        name: drawn[name] for name in POINTS
    }
    low, ridge, high = drawn["peak: 100 TFLOP/s"]
    assert ridge == (50, 1e14) and high[1] == 1e14 and low[1] == low[0] * 2e12
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert {"mlp", "norms", "ridge: 50 FLOP a byte", "FLOP/s", "10 TFLOP/s"} <= words(ax)


EXAMPLES = {  # by the function that makes the chart
    "charts.curves": (
        curves,
        show.curves(
            SERIES,
            **TITLES,
            show_y=says.time,
            log_x=True,
            limit=5e-3,
            band=(4, 16),
            mark=32,
            lowest=True,
        ),
    ),
    "charts.byte_bars": (
        byte_bars,
        show.byte_bars(ROWS, title="T", limit=10, limit_label="one device"),
    ),
    "charts.bars": (any_bars, bars(ROWS, says.number, "units", title="T")),
    "pictures.parts_bar": (parts_bar, show.parts_bar(SPENT, caption="Hours.")),
    "schemes.compute.hours": (hours, compute.hours({"a job": SPENT}, title="T")),
    "timelines.ranks_timeline": (
        ranks_timeline,
        show.ranks_timeline(EVENTS, title="T", messages="messages", until="forward"),
    ),
    "gantt.schedule_chart": (
        schedule_chart,
        show.schedule_chart(RUN, title="T", now=6, brackets={"": [(0, 3, "first")]}),
    ),
    "memory_chart.memory_line": (
        memory_line,
        show.memory_line(
            ALIVE,
            [(2, "forward"), (4, "backward")],
            title="T",
            peak=True,
            limit=12,
            limit_label="most",
        ),
    ),
    "roof.roof_chart": (
        roofline,
        roof_chart(POINTS, peak=1e14, bandwidth=2e12, title="T"),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_axes_hold_the_chart_s_data(name):
    read, chart = EXAMPLES[name]
    ax = chart.axes()
    read(ax)


@pytest.mark.parametrize("name", EXAMPLES)
def test_axes_of_the_reader_s_own_are_drawn_on(name):
    read, chart = EXAMPLES[name]
    _, (own, other) = pyplot.subplots(2, 1)
    assert chart.axes(own) is own and len(pyplot.get_fignums()) == 1
    read(own)
    assert not other.has_data()
    assert pyplot.rcParams["axes.spines.top"], "the book's style ends with the chart"


def test_a_plane_is_as_long_upwards_as_across():
    ax = show.curves({"a": [(1, 2)]}, **TITLES, equal=True).axes()
    assert ax.get_aspect() == 1 and not ax.get_legend()


def test_a_quiet_limit_has_no_name():
    ax = show.curves(SERIES, **TITLES, limit=1, limit_quiet=True).axes()
    assert lines(ax)["_quiet"] == [(0, 1), (1, 1)] and not any("limit" in w for w in words(ax))


def test_several_schedules_have_their_headings_and_those_not_followed_are_pale():
    ax = show.schedule_chart({"one": RUN, "two": RUN}, title="T", follow=1, memory=False).axes()
    assert any(said.startswith("two: ") for said in words(ax))
    followed = spans(ax, gantt.box_look("F")[0], alpha=1.0)
    assert {row for row, *_ in followed} == {1, 2, 3, 5, 6, 7}, "a row for each heading"
    assert len(followed) == 2 * 3, "one micro-batch on each stage"
    assert not [c for c in ax.collections if c.get_label() == "_held"]


def test_the_style_sheet_has_the_book_s_colours():
    style = pyplot.style.library.get(axes.STYLE) or matplotlib.rc_params_from_file(
        Path(axes.__file__).with_name("book.mplstyle"), use_default_template=False
    )
    cycle = style["axes.prop_cycle"].by_key()["color"]
    assert [colors.to_hex(colour) for colour in cycle] == [colour for colour, _ in SPARE]
    assert len(plot.MARKERS) == len(axes.MARKERS), "each marker of the page has its own here"


def annotated():
    """Every function of mathlib.show that returns something shown: its name, and whether it is a
    chart.
    """
    for info in pkgutil.walk_packages(show.__path__, f"{show.__name__}."):
        module = importlib.import_module(info.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            told = inspect.get_annotations(function).get("return")
            if function.__module__ == info.name and told in (Chart, show.tables.Shown):
                yield f"{info.name.removeprefix('mathlib.show.')}.{name}", told is Chart


def test_every_kind_of_chart_has_axes():
    found = dict(annotated())
    charts = {name for name, is_chart in found.items() if is_chart}
    assert charts == set(EXAMPLES), "write an example of it in this file"
    others = {name for name in set(found) - charts if not name.startswith("schemes.")}
    assert others == NO_DATA, "what draws data returns a Chart, see mathlib/show/figures.py"


def test_a_scheme_draws_no_chart_of_data():
    for path in (Path(show.__file__).parent / "schemes").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            made = getattr(getattr(node, "func", None), "id", "")
            assert made != "Shown", f"{path.name} makes a Shown: figure(...) for a scheme, or Chart"
