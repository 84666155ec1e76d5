"""Boxes lie where the clock has put them, strips are as high as what is held."""

from dataclasses import replace

import pytest
from charts import SPACE, boxes, drawn, points, said, unreadable, widths, words

from mathlib.checks import InputError
from mathlib.schedule import orders
from mathlib.schedule.simulate import Timeline, simulate, until_stuck
from mathlib.schedule.times import Times
from mathlib.show import gantt, schedule_chart
from mathlib.show.roles import ROLES

SMALL = {"stages": 4, "micro_batches": 8}


def ran(order: str, times: Times | None = None, **options: int) -> Timeline:
    return simulate(orders.make(order, **(SMALL | options)), times)


def fills(chart, role: str) -> list:
    return [e for e in chart.iter() if e.get("fill") == ROLES[role][0]]


@pytest.mark.parametrize("order", orders.ORDERS)
def test_every_action_is_a_box_as_long_as_it_takes(order):
    one = ran(order)
    hints = boxes(drawn(schedule_chart(one, title=order)))
    (unit,) = (box for hint, box in hints.items() if hint.startswith("F0 of chunk 0:"))
    last = max(hints.values(), key=lambda box: box[0] + box[2])
    scale = (last[0] + last[2] - unit[0]) / one.total
    assert len(hints) == sum(map(len, one.schedule.actions))
    for row, begins, ends in zip(one.schedule.actions, one.begins, one.ends, strict=True):
        for action, begin, end in zip(row, begins, ends, strict=True):
            x, _, wide, _ = next(
                box for hint, box in hints.items() if hint.startswith(f"{action}:")
            )
            assert x - unit[0] == pytest.approx(begin * scale, abs=0.6)
            assert wide == pytest.approx((end - begin) * scale, abs=0.2)


@pytest.mark.parametrize("order", orders.ORDERS)
@pytest.mark.parametrize("memory", [True, False])
def test_every_order_fits_both_widths(order, memory):
    assert not unreadable(schedule_chart(ran(order), title=order, memory=memory))
    many = ran(order, stages=8, micro_batches=32)
    assert not unreadable(schedule_chart(many, title=order, now=40.5))


def test_numbers_are_those_of_the_micro_batches():
    chart = drawn(schedule_chart(ran("1f1b"), title="1F1B"))
    found = [span.text for span in chart.iter(f"{SPACE}tspan")]
    assert sorted(found) == sorted([str(i) for i in range(8)] * 2 * 4)


def test_several_timelines_share_their_scale():
    both = {"one": ran("gpipe", micro_batches=4), "two": ran("gpipe")}
    hints = [w for w in boxes(drawn(schedule_chart(both, title="Two"))).items() if "F0 of" in w[0]]
    assert len({round(box[2], 1) for _, box in hints}) == 1
    told = said(drawn(schedule_chart(both, title="Two")))
    assert "one: 21 in all; bubble 75% of the ideal time" in told and "two: 33 in all" in told


def test_what_is_held_stands_beside_each_stage():
    chart = drawn(schedule_chart(ran("1f1b"), title="1F1B"))
    assert [w for w in words(chart) if w in tuple("1234")] == ["4", "3", "2", "1"]
    assert len(fills(chart, "activations")) == 4 + 1, "a strip for each stage, and the legend"
    bare = schedule_chart(ran("1f1b"), title="1F1B", memory=False)
    assert not fills(drawn(bare), "activations") and "most held" not in words(drawn(bare))


def test_what_begins_after_the_marker_is_pale_and_what_runs_has_a_frame():
    one = ran("1f1b")
    chart = drawn(schedule_chart(one, title="1F1B", now=10.5))
    begun = sum(begin < 10.5 for row in one.begins for begin in row)
    assert len(boxes(chart)) == begun and "10.5" in words(chart) and "held now" in words(chart)
    pale = [p for p in chart.iter(f"{SPACE}path") if p.get("fill-opacity") == f"{gantt.PALE:.2f}"]
    assert sum(p.get("d").count("M") for p in pale) == 64 - begun
    running = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke-width") == "2"]
    at = sum(
        b < 10.5 < e
        for bs, es in zip(one.begins, one.ends, strict=True)
        for b, e in zip(bs, es, strict=True)
    )
    assert sum(p.get("d").count("M") for p in running) == at


def test_one_micro_batch_is_followed():
    hints = boxes(drawn(schedule_chart(ran("interleaved"), title="One", follow=3)))
    assert len(hints) == 2 * 8 and all("F3 " in hint or "B3 " in hint for hint in hints)


@pytest.mark.parametrize(("order", "times"), [("1f1b", 4), ("pipedream", 32), ("2bw", 8)])
def test_weights_change_once_or_again_and_again(order, times):
    chart = drawn(schedule_chart(ran(order), title=order))
    assert len(fills(chart, "weights")) == times + 1, "and the legend"


def test_weights_do_not_change_while_a_micro_batch_is_missing():
    whole = orders.make("1f1b", **SMALL)
    rows = [list(row) for row in whole.actions]
    part = until_stuck(replace(whole, actions=[rows[0][:-1], *rows[1:]]))
    assert len(fills(drawn(schedule_chart(part, title="Part")), "weights")) == 1, "the legend"


def test_messages_that_take_time_are_lines_between_the_stages():
    one = ran("1f1b", Times(message=0.5))
    chart = drawn(schedule_chart(one, title="1F1B"))
    (sent,) = (
        p for p in chart.iter(f"{SPACE}path") if p.get("stroke") == ROLES["communication"][0]
    )
    assert len(points(sent)) == 2 * one.messages.total() and "message" in words(chart)
    assert "message" not in words(drawn(schedule_chart(ran("1f1b"), title="1F1B")))


def test_later_chunks_are_lighter_and_the_legend_says_so():
    plain, looped, ends = (
        words(drawn(schedule_chart(ran(order), title="One")))
        for order in ("1f1b", "zb-v", "dualpipe")
    )
    assert not any("lighter" in word for word in plain)
    assert "lighter: a later chunk" in looped and "lighter: the other direction" in ends
    assert "backward, or its part for inputs" in ends and "backward for inputs" in looped
    assert len({gantt.box_look(kind, later) for kind in "FBW" for later in (0, 1)}) == 6


def test_more_actions_than_can_be_told_apart_are_drawn_without_hints():
    wide = drawn(schedule_chart(ran("gpipe", stages=8, micro_batches=32), title="Many"))
    assert not boxes(wide)
    cells = [p for p in wide.iter(f"{SPACE}path") if p.get("fill") == ROLES["forward"][0]]
    assert sum(p.get("d").count("M") for p in cells) == 8 * 32


def test_the_axis_can_be_longer_than_the_timeline_and_in_other_units():
    short, long = (
        boxes(drawn(schedule_chart(ran("gpipe"), title="One", until=end))) for end in (0, 66)
    )
    hint = "F0 of chunk 0: 0 to 1"
    assert long[hint][2] == pytest.approx(short[hint][2] / 2, abs=0.1)
    named = schedule_chart(ran("gpipe"), title="One", axis="forwards", show=lambda x: f"{x:g} ms")
    assert {"forwards", "20 ms"} <= set(words(drawn(named)))


def idle_boxes(chart) -> int:
    found = [e for e in fills(chart, "idle") if e.tag == f"{SPACE}path"]
    return sum(path.get("d").count("M") for path in found)


def test_waiting_has_its_colour_in_every_gap():
    one = ran("gpipe")
    assert idle_boxes(drawn(schedule_chart(one, title="GPipe"))) == 1 + 3 + 3 + 2
    assert "idle" in words(drawn(schedule_chart(one, title="GPipe")))
    early = drawn(schedule_chart(one, title="GPipe", now=2))
    assert idle_boxes(early) == 3, "stages 1, 2 and 3 wait, and what comes later is not said"
    alone = drawn(schedule_chart(ran("gpipe", stages=1), title="One"))
    assert not fills(alone, "idle")


def test_brackets_name_spans_beneath_the_lanes():
    spans = [(0, 3, "(p - 1) F"), (3, 27, "m (F + B)")]
    plain, marked = (
        schedule_chart(ran("gpipe"), title="One", memory=False, brackets=given)
        for given in ({}, {"": spans})
    )
    assert {"(p - 1) F", "m (F + B)"} <= set(words(drawn(marked)))
    assert "(p - 1) F" not in words(drawn(plain)) and not unreadable(marked)


def test_the_same_timeline_gives_the_same_bytes():
    one, other = (schedule_chart(ran("zb-v"), title="V")._repr_html_() for _ in range(2))
    assert one == other and len(widths(one)) == 2


@pytest.mark.parametrize("wrong", [{}, {"one": 3}, 3])
def test_what_is_no_timeline_is_refused(wrong):
    with pytest.raises(InputError, match="timelines"):
        schedule_chart(wrong, title="Wrong")
