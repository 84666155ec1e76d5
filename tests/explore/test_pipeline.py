"""The player draws what the simulator found; closed formulas stand where they hold."""

import re

import pytest
from charts import boxes, drawn, unreadable, words

from mathlib.explore.pipeline import BESIDE, FOLLOWED, SLOW, TITLES, ran
from mathlib.schedule import bubble, orders
from mathlib.show.experiments import find

PLAYER = find("player")


def cells(html: str) -> dict[str, list[str]]:
    """Rows of the table by their names."""
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', html)
    return {name: re.findall(r"<td>([\d.%–]+)", rest) for name, rest in rows}


def test_every_order_of_the_library_is_offered_and_drawn():
    assert set(TITLES) == {*orders.ORDERS, "twice ahead"} > set(BESIDE)
    for order in TITLES:
        html = PLAYER.run({"order": order})
        assert not unreadable(html) and "Not possible" not in html
        assert f"{TITLES[order]}: 4 stages, 8 micro-batches" in words(drawn(html))


def test_the_numbers_of_four_stages_and_eight_micro_batches():
    found = cells(PLAYER.run())
    assert [row[0] for row in found.values()] == ["33", "33", "28.5", "27", "25.5", "25"]
    assert found["1F1B"][1:] == ["37.5%", "27.3%", "4"] and found["GPipe"][3] == "8"
    assert found["Interleaved 1F1B"][3] == "5.5"


@pytest.mark.parametrize("order", [*bubble.PLAIN, *bubble.CHUNKED])
@pytest.mark.parametrize("backward", [0.5, 3.0])
def test_the_closed_formula_stands_where_it_holds(order, backward):
    html = PLAYER.run({"order": order, "backward": backward})
    v = 2 if order in bubble.CHUNKED else 1
    said = f"A stage idles for {3 * (1 + backward) / v:g} forwards on average, as the formula says"
    assert said in html
    assert f"= 3 &sdot; {1 + backward:g}{' / 2' if v == 2 else ''}.</p>" in html


@pytest.mark.parametrize("change", [{"message": 0.2}, {"slow": "the last, twice as long"}])
def test_where_no_closed_formula_holds_it_says_so(change):
    html = PLAYER.run(change)
    assert "needs equal stages and messages that" in html and "as the formula says" not in html


def test_messages_that_take_time_part_gpipe_from_1f1b():
    found = cells(PLAYER.run({"message": 0.2}))
    assert float(found["1F1B"][0]) > float(found["GPipe"][0]) > 33


@pytest.mark.parametrize("stages", [2, 5, 8])
@pytest.mark.parametrize("slow", SLOW)
def test_a_slow_stage_is_one_that_is_there(stages, slow):
    costs = (2.0, 1.0, 0.0, slow)
    one, even = (
        ran("1f1b", (stages, 8, 1), costs),
        ran("1f1b", (stages, 8, 1), (*costs[:3], "none")),
    )
    assert (one.total > even.total) == (slow != "none")
    assert sum(a > b for a, b in zip(one.busy, even.busy, strict=True)) == (slow != "none")


def test_what_has_not_begun_at_the_marker_is_not_said():
    html = PLAYER.run({"played": 50})
    one = ran("1f1b", (4, 8, 2), (2.0, 1.0, 0.0, "none"))
    assert "<b>At 16.5 of 33:</b> stage 0 B2, stage 1 F5, stage 2 B3, stage 3 B4." in html
    assert len(boxes(drawn(html))) == sum(begin < 16.5 for row in one.begins for begin in row)
    assert "stage 1 waits" in PLAYER.run({"played": 0})


@pytest.mark.parametrize(
    ("follow", "which"), [("the first", 0), ("a middle one", 4), ("the last", 7)]
)
def test_a_micro_batch_is_followed(follow, which):
    assert follow in FOLLOWED
    hints = boxes(drawn(PLAYER.run({"follow": follow})))
    assert len(hints) == 8 and all(hint[1:].startswith(f"{which} of") for hint in hints)


def test_an_order_that_is_refused_says_with_what_it_would_go():
    html = PLAYER.run({"order": "interleaved", "micro_batches": 6})
    assert "Not possible" in html and "Micro-batches can be: 4, 8, 12, 16, 24, 32." in html
    beside = cells(PLAYER.run({"micro_batches": 6}))
    assert beside["Interleaved 1F1B"] == ["–"] * 4 and beside["GPipe"][0] == "27"


def test_versions_of_the_weights_are_counted():
    assert "and 4 versions of its weights" in PLAYER.run({"order": "pipedream"})
    assert "and 2 versions of its weights" in PLAYER.run({"order": "2bw"})
    assert "versions" not in PLAYER.run()


def test_the_marker_moves_without_running_anything_anew():
    PLAYER.run({"played": 10})
    before = ran.cache_info().misses
    PLAYER.run({"played": 20})
    assert ran.cache_info().misses == before


def test_twice_ahead_has_the_chapters_numbers():
    found = cells(PLAYER.run({"order": "twice ahead", "message": 0.5}))
    assert found["1F1B, twice ahead"][::3] == ["36", "7"]
    weak = {"order": "twice ahead", "slow": "the first, 1.5 times as long"}
    assert cells(PLAYER.run(weak))["1F1B, twice ahead"][0] == "36"
