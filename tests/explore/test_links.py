"""The explorer of slow links: its numbers are the formulas'."""

import pytest

from mathlib import specs
from mathlib.explore import links
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.traffic import compressed
from mathlib.trials import links as runs

EXPERIMENT = "send-less"


def plain(html):
    return html.replace("\u00a0", " ")


def test_bytes_and_shares_are_those_of_the_formulas():
    html = plain(find(EXPERIMENT).run())
    P = specs.find_model("llama3-8b").parameters
    less = compressed.coded(numbers=P, ranks=4, bits=8)
    full = compressed.coded(numbers=P, ranks=4, bits=16, block=None)
    assert says.size(less) in html and says.size(full) in html
    assert says.time(less / 1.25e9) in html
    even = compressed.break_even(
        full=full, less=less, seconds=150 * P / 8 / specs.find_device("h100-sxm").memory_bandwidth
    )
    assert says.rate(even) in html


def test_local_steps_divide_and_other_codes_ignore_them():
    of = {"code": "local"}
    ten, hundred = (find(EXPERIMENT).run({**of, "steps": steps}) for steps in (10, 100))
    assert "2.41 GB" in plain(ten) and "241 MB" in plain(hundred)
    assert find(EXPERIMENT).run({"steps": 10}) == find(EXPERIMENT).run({"steps": 500})


def test_top_k_on_many_nodes_never_pays_and_bf16_saves_nothing():
    assert "no link: it sends more" in find(EXPERIMENT).run({"code": "top-k", "nodes": 64})
    assert "nothing is saved" in find(EXPERIMENT).run({"code": "bf16"})
    assert "every link" in find(EXPERIMENT).run({"code": "local"})


def test_what_coding_moves_is_what_is_counted():
    counted = runs.moved()
    for name in ("int8", "sign", "top-k"):
        assert links.MOVED[name] == pytest.approx(counted[name], abs=0.6)
