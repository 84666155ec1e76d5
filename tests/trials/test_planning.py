"""The five people's plan, held against the sweep that it was made for."""

import pytest

from mathlib.plan import planner, rent
from mathlib.plan.room import find_keeps
from mathlib.plan.step import interval
from mathlib.trials import planning as five
from mathlib.trials.planning_scaling import DAY


def test_the_first_search_chooses_a_layout_that_died_and_the_careful_one_the_quickest():
    sweep = five.sweep()
    on = sweep.machine(five.PROGRAM)
    first = planner.search(on, devices=64, sequences=512).choices[0]
    (died,) = [trial for trial in sweep.trials if trial.name.endswith("131702")]
    assert five.words(first.layout) == five.words(died.layout) and not died.ran
    assert five.LIMIT - first.memory == pytest.approx(7e9, abs=1e8)
    careful = five.able(on, 64, 512)
    quickest = sweep.timed[0]
    assert five.words(careful[0].layout) == five.words(quickest.layout) and not quickest.fitted
    assert careful[0].seconds == pytest.approx(quickest.seconds, rel=0.01)
    assert all(c.risk <= 0.05 and c.layout.zero < 2 and c.layout.chunks == 1 for c in careful)
    assert len(five.able(on, 64, 512, risk=0.5)) > len(careful)


def test_replicas_share_and_so_need_fewer_gpus():
    held = {name: sum(parts.values()) for name, parts in five.replicas().items()}
    fit = [name for name, size in held.items() if size <= five.LIMIT]
    assert fit[0] == "4 GPUs, one replica" and fit[2] == "2 GPUs of 64"
    layout = five.tensor(2, 32)
    own = five.filled(layout, five.sweep(), find_keeps(five.PROGRAM))
    usual = five.filled(layout, five.sweep())
    assert own["logits"] - usual["logits"] == pytest.approx(11.6e9, rel=0.01)


def test_the_month_is_longer_with_failures_and_at_the_upper_end_too_long():
    sweep = five.sweep()
    one = interval(sweep.machine(five.PROGRAM), sweep.timed[0].layout)
    steps = {"step": (one.low, sweep.timed[0].seconds, one.high)}
    assert five.calendar(steps) == [["step", "19.7", "27.0", "45.7"]]
    assert five.days(34.83) > five.steps() * 34.83 / DAY
    assert five.days(one.high, record=five.OPT) < 46.5
    for hours, share in ((0.25, 0.990), (8, 0.955)):
        night = five.stretched(64, five.OPT, restart=hours * 3600)
        assert 1 / night.total == pytest.approx(share, abs=1e-3)
    assert [row[3] for row in five.goodputs()] == ["99.5%", "97.7%", "85.6%"]
    heads, rows = five.bill(sweep.timed[0].seconds, one.high)
    assert heads[2:] == ["27 days", "46 days"]
    assert [cell[:4] for cell in rows[0][1:]] == ["$1.6", "$66,", "$112"]


def test_spot_gpus_pay_above_the_share_of_the_price():
    h200 = rent.find_price("aws-p5en.48xlarge")
    both = {"price_per_hour": h200.on_demand, "spot_price_per_hour": h200.spot}
    assert round(rent.even_goodput(**both), 2) == 0.42
