"""Letters become schedules, and what is wrong with them is said; layers are dealt out."""

import itertools
import re

import pytest
from charts import boxes, drawn, unreadable, words

from mathlib.explore import schedules
from mathlib.layout import Layout
from mathlib.schedule import check, orders, partition
from mathlib.schedule.simulate import simulate
from mathlib.show import says
from mathlib.show.experiments import find

BUILD, SPLIT = find("build"), find("partition")
EVERY = [(place, order) for place, known in schedules.KNOWN.items() for order in known.values()]


def typed(lines: list[str], place: str = "one") -> str:
    return BUILD.run({f"stage{s}": line for s, line in enumerate(lines)} | {"place": place})


@pytest.mark.parametrize(("place", "order"), EVERY)
def test_a_known_order_survives_its_letters(place, order):
    known = orders.make(order, stages=4, micro_batches=8)
    read, wrong = schedules.written(schedules.letters(known), schedules.PLACES[place]())
    assert not wrong
    check.validate(read)
    if order == "breadth-first":  # goes back the other way round: the letters mean the first first
        assert [[a.kind for a in row] for row in read.actions] == [
            [a.kind for a in row] for row in known.actions
        ]
    else:
        assert read.actions == known.actions


@pytest.mark.parametrize(("place", "order"), EVERY)
def test_a_known_order_typed_is_level_with_itself(place, order):
    known = orders.make(order, stages=4, micro_batches=8)
    html = typed(schedules.letters(known), place)
    assert f"<b>{says.plain(simulate(known).total)} forwards long</b>" in html
    assert "Not yet" not in html and not unreadable(html)


def test_the_start_has_one_slip_and_mended_it_is_1f1b():
    start = typed(list(schedules.START))
    assert "<b>51 forwards long</b>" in start and "zero bubble H1, 27" in start
    mended = [schedules.START[0], "FFFBFBFBFBFBFBBB", *schedules.START[2:]]
    assert mended == schedules.letters(orders.make("1f1b", stages=4, micro_batches=8))
    assert "<b>33 forwards long</b>" in typed(mended)


@pytest.mark.parametrize(
    ("stage", "line", "said"),
    [
        (1, "FFFFBFBFBFBFBFBFBBB", "stage 1, letter 14: F number 9, and there are 8"),
        (3, "FWBFBFBFBFBFBFBFB", "stage 3, letter 2: no I waits for this W"),
        (0, "FFFFBFBFBFBFBBB", "stage 0 lacks B7 of chunk 0"),
        (0, "FFFFBFBFBFBFBBBI", "stage 0 lacks W7 of chunk 0"),
        (2, "BFBFBFBFBFBFBFBF", "the stages wait for each other"),
        (2, "", "stage 2 lacks F0 of chunk 2"),
    ],
)
def test_what_is_wrong_is_said_and_what_works_is_drawn(stage, line, said):
    lines = list(schedules.START)
    lines[stage] = line
    html = typed(lines)
    assert "Not yet a schedule" in html and said in html.partition("</p>")[0]
    assert "Your schedule, as far as it goes" in words(drawn(html)) and not unreadable(html)
    assert boxes(drawn(html)) and ">yours<" not in html


def test_a_stage_that_waits_stops_the_others_and_nobody_changes_weights():
    html = typed(["F" * 8 + "B" * 8, "FFFFFFFFBBBBBBBB", "BFFFFFFFFBBBBBBB", "FBFBFBFBFBFBFBFB"])
    assert len(boxes(drawn(html))) == 16, "eight forwards on each of the first two stages"


def test_small_letters_and_spaces_do_no_harm_with_one_chunk():
    assert typed([line.lower() for line in schedules.START]) == typed(list(schedules.START))
    assert typed([f" {line[:4]} {line[4:]}" for line in schedules.START]) == typed(
        list(schedules.START)
    )


def test_small_letters_are_the_second_chunk():
    read, _ = schedules.written(["FfBb"] * 4, schedules.PLACES["v"]())
    assert [a.chunk for a in read.actions[0]] == [0, 7, 0, 7]
    assert [a.chunk for a in read.actions[3]] == [3, 4, 3, 4]


def test_nobody_is_told_to_be_better_than_can_be():
    """The bound holds for every known order, and some reach it."""
    for place, order in EVERY:
        known = orders.make(order, stages=4, micro_batches=8)
        html = typed(schedules.letters(known), place)
        least = float(re.search(r"Nobody can need less than (\d+(?:\.\d+)?)", html)[1])
        assert simulate(known).total >= least
        assert order not in ("zb-h1", "zb-v") or simulate(known).total == least


def test_the_known_orders_stand_below_in_letters():
    html = BUILD.run()
    assert "\n".join(schedules.letters(orders.make("zb-h1", stages=4, micro_batches=8))) in html


@pytest.mark.parametrize("way", ["even", "time", "memory"])
def test_bars_are_those_of_the_library(way):
    html = SPLIT.run({"way": way})
    layout = Layout(pipeline=8, tensor=8, micro_batches=32)
    dealt = schedules.split_of(way, "gpt3-175b", layout)
    sizes = [one.total for one in partition.stage_bytes("gpt3-175b", layout, dealt)]
    assert sum(dealt) == 96 and not unreadable(html)
    for size, count in zip(sizes, dealt, strict=True):
        assert says.size(size) in html and f": {count} layers" in html
    assert f"is the fullest, {says.size(max(sizes))}</b>" in html


def test_gpt3_fits_when_dealt_out_by_memory_and_takes_longer():
    even, memory = (SPLIT.run({"way": way}) for way in ("even", "memory"))
    assert "Stage 0 is the fullest, 101 GB</b>; 2 of 8 stages do not fit" in even
    assert "every stage fits" in memory and "<b>1.02 times</b>" in even
    assert "<b>1.35 times</b>" in memory


def test_the_parts_of_a_bar_are_all_that_is_held():
    layout = Layout(pipeline=4, tensor=8, micro_batches=8)
    for parts in partition.stage_bytes("llama2-70b", layout, [20] * 4):
        assert sum(schedules._grouped(parts).values()) == pytest.approx(parts.total, rel=1e-12)


def test_layers_that_stages_do_not_divide_are_refused_with_what_would_go():
    html = SPLIT.run({"model": "gpt-neox-20b"})
    assert "Not possible" in html and "can be" in html


def test_micro_batches_in_flight_are_those_of_1f1b():
    html = SPLIT.run({"micro_batches": 4})
    found = [int(count) for count in re.findall(r"(\d) in flight", html)]
    assert found[:8] == [min(8 - s, 4) for s in range(8)] == list(itertools.islice(found, 8))


def test_by_flash_attention_without_dropout_gpt3_fits_evenly():
    html = SPLIT.run({"flash": True})
    assert "every stage fits" in html and "every stage fits" not in SPLIT.run()
    layout = Layout(pipeline=8, tensor=8, micro_batches=32)
    dealt = schedules.split_of("memory", "gpt3-175b", layout, flash=True)
    assert dealt != schedules.split_of("memory", "gpt3-175b", layout) and sum(dealt) == 96
