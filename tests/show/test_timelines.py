"""A trace's events as a picture: a line for a rank's work, and lines for what it has on the
wire.
"""

import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from mathlib.show import ranks_timeline

SPACE = "{http://www.w3.org/2000/svg}"


def event(what: str, kind: str, rank: int, start: float, end: float) -> SimpleNamespace:
    return SimpleNamespace(what=what, kind=kind, rank=rank, start=start, end=end)


EVENTS = [
    event("forward", "compute", 0, 0, 0.001),
    event("backward", "compute", 0, 0.001, 0.003),
    event("gradient", "gradient", 0, 0.002, 0.002),
    event("bucket 0", "communication", 0, 0.002, 0.004),
    event("bucket 1", "communication", 0, 0.003, 0.005),  # beside bucket 0
    event("bucket 2", "communication", 0, 0.004, 0.006),  # after bucket 0
    event("wait", "idle", 0, 0.003, 0.006),
    event("forward", "compute", 1, 0, 0.002),
]


def picture(events: list) -> ET.Element:
    html = ranks_timeline(events, title="One step")._repr_html_()
    return ET.fromstring(re.search("<svg.*?</svg>", html, re.DOTALL)[0])


def boxes(chart: ET.Element) -> dict[str, tuple[float, float]]:
    """Hint of each box: its line (from the top) and its width."""
    return {
        title.text: (float(rect.get("y")), float(rect.get("width")))
        for rect in chart.iter(f"{SPACE}rect")
        for title in rect.iter(f"{SPACE}title")
    }


def test_each_rank_has_a_line_and_its_wire_beneath():
    labels = [t.text or "" for t in picture(EVENTS).iter(f"{SPACE}text")]
    lines = [label for label in labels if label.startswith(("rank", "under", "also"))]
    assert lines == ["rank 0", "under way", "also", "rank 1"], (
        "rank 1 sends nothing, so it has no such line"
    )


def test_messages_in_flight_together_are_drawn_apart():
    lines = {
        hint.split(",")[1].split(":")[0].strip(): y
        for hint, (y, _) in boxes(picture(EVENTS)).items()
    }
    assert lines["bucket 0"] == lines["bucket 2"] != lines["bucket 1"]


def test_boxes_are_as_long_as_their_events():
    width = {hint: w for hint, (_, w) in boxes(picture(EVENTS)).items()}
    three, one = width["rank 0, wait: 3 ms to 6 ms"], width["rank 0, forward: 0 s to 1 ms"]
    assert three == pytest.approx(3 * one, abs=0.2), "lengths are printed with one decimal"


def test_other_kinds_are_not_drawn():
    assert not any("gradient" in hint for hint in boxes(picture(EVENTS)))


def test_the_last_time_on_the_axis_stays_inside():
    chart = picture([event("forward", "compute", 0, 0, 0.2)])
    edge = float(chart.get("viewBox").split()[2])
    (last,) = (t for t in chart.iter(f"{SPACE}text") if t.text == "200 ms")
    assert float(last.get("x")) > edge - 25 and last.get("text-anchor") == "end"


def test_messages_may_have_the_role_of_what_they_carry():
    plain = picture(EVENTS)
    told = ranks_timeline(EVENTS, title="One step", carries={"bucket 0": "gradients"})
    fills = [
        {r.get("fill") for r in chart.iter(f"{SPACE}rect")}
        for chart in (
            plain,
            ET.fromstring(re.search("<svg.*?</svg>", told._repr_html_(), re.DOTALL)[0]),
        )
    ]
    assert "gradients" in told._repr_html_() and fills[0] != fills[1]


def test_messages_have_one_name_and_a_number_each():
    """A dotted line stands where the work before them ends; without it there is none."""
    html = ranks_timeline(EVENTS, title="t", messages="its buckets", until="backward")._repr_html_()
    wide, narrow = (ET.fromstring(s) for s in re.findall("<svg.*?</svg>", html, re.DOTALL))
    for chart in (wide, narrow):
        written = [t.text or "" for t in chart.iter(f"{SPACE}text")]
        assert written.count("its buckets") == 1 and {"0", "1", "2"} <= set(written)
        dotted = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "2 3"]
        assert len(dotted) == 1, "rank 1 has no backward"
    lines = boxes(wide)
    assert lines["its buckets, bucket 0: 2 ms to 4 ms"][0] > lines["rank 0, wait: 3 ms to 6 ms"][0]


def test_a_number_stands_left_of_a_box_that_is_too_narrow():
    events = [event("work", "compute", 0, 0, 1), event("bucket 7", "communication", 0, 0.99, 0.995)]
    html = ranks_timeline(events, title="t", messages="its buckets")._repr_html_()
    chart = ET.fromstring(re.search("<svg.*?</svg>", html, re.DOTALL)[0])
    (seven,) = (t for t in chart.iter(f"{SPACE}text") if t.text == "7")
    assert seven.get("text-anchor") == "end" and seven.get("fill") is None


def test_a_number_beside_its_box_stands_on_no_other_box():
    events = [event(f"bucket {i}", "communication", 0, i / 99, (i + 0.9) / 99) for i in (97, 98)]
    html = ranks_timeline(events, title="t", messages="its buckets")._repr_html_()
    chart = ET.fromstring(re.search("<svg.*?</svg>", html, re.DOTALL)[0])
    first, second = (high for high, _ in boxes(chart).values())
    assert first < second


def test_a_number_too_wide_for_its_box_stays_on_its_side_of_the_dotted_line():
    moments = [
        event("backward", "compute", 0, 0.0, 0.9),
        event("bucket 1", "communication", 0, 0.1, 0.6),
        event("bucket 2", "communication", 0, 0.905, 0.91),
    ]
    shown = ranks_timeline(moments, title="t", messages="buckets", until="backward")
    for svg in re.findall(r"<svg.*?</svg>", shown._repr_html_(), re.DOTALL):
        chart = ET.fromstring(svg)
        (line,) = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-dasharray") == "2 3"]
        mark = float(line.get("d")[1:].split()[0])
        (number,) = [t for t in chart.iter(f"{SPACE}text") if t.text == "2"]
        assert float(number.get("x")) > mark and number.get("text-anchor") is None
        assert float(number.get("x")) + 8 < float(chart.get("viewBox").split()[2])
