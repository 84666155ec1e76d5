"""The explorer of loads: its numbers are the formulas'."""

import math
import re

from mathlib.schedule import expert_load
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.traffic import volumes

EXPERIMENT = "expert-loads"


def plain(html):
    return html.replace("\u00a0", " ")


def test_loads_bytes_and_ranks_are_those_of_the_formulas():
    html = plain(find(EXPERIMENT).run())
    of = {"experts": 8, "active": 2, "tokens": 256, "skew": 0.5}
    loads = expert_load.by_rank(visits=expert_load.drawn(**of), expert=8)
    assert f"{expert_load.imbalance(loads=loads):.2f} times the mean" in html
    assert f"wait {expert_load.waiting(layers=[loads]):.0%}" in html
    how = {"tokens": 4096, "layers": 1}
    sent = volumes.expert_parallel("mixtral-8x7b", expert=8, **how).total
    assert says.size(sent) in html and f"communication {says.time(sent / 400e9)}" in html
    parts = volumes.expert_parallel("mixtral-8x7b", expert=1, expert_tensor=8, **how).total
    assert says.size(parts) in html, "to three digits"
    assert "2.0 of 8" in html


def test_boxes_are_alike_and_a_small_one_drops():
    html = find(EXPERIMENT).run({"capacity": 100, "skew": 100})
    visits = expert_load.drawn(experts=8, active=2, tokens=256, skew=1.0)
    lost = expert_load.dropped(visits=visits, room=math.ceil(256 * 2 / 8)) / 512
    assert f"{lost:.0%} of the visits are dropped" in html and lost > 0.1
    assert f"{lost:.0%} of all rows are empty" in html, "as many rows as visits"


def test_many_experts_a_rank_are_calmer_and_a_degree_must_divide():
    wide = find(EXPERIMENT).run({"model": "deepseek-v3", "skew": 0})
    assert float(re.search(r"<b>([\d.]+)", wide)[1]) < 1.2
    assert "Not possible" in find(EXPERIMENT).run({"expert": 64})


def test_at_most_eight_ranks_are_drawn():
    assert "the eight fullest" in find(EXPERIMENT).run({"model": "deepseek-v3", "expert": 16})
