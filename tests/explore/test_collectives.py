"""The ring's picture and the fastest algorithm, before any page."""

import re

import pytest

from mathlib.show.experiments import find
from mathlib.traffic import comm

ARROW = re.compile(r"m-4 -5l4 5l4 -5")


@pytest.mark.parametrize(("step", "arrows"), [(0, 0), (1, 5), (8, 5)])
def test_every_rank_receives_one_piece_a_step(step, arrows):
    assert len(ARROW.findall(find("ring").run({"ranks": 5, "step": step}))) == 2 * arrows, (
        "in two widths"
    )


@pytest.mark.parametrize("ranks", range(2, 9))
def test_the_slider_reaches_every_step_and_ends_with_the_last(ranks):
    last = 2 * (ranks - 1)
    pages = [find("ring").run({"ranks": ranks, "step": step}) for step in range(15)]
    assert all(any(f"Step {step} of {last}" in page for page in pages) for step in range(last + 1))
    assert f"Step {last} of" in pages[-1] and "the whole sum" in pages[-1] and "<svg" in pages[-1]


def test_the_fastest_is_named_and_the_balance_is_right():
    assert "Fastest: ring and halving-doubling<" in find("all-reduce").run({"ranks": 2})
    assert "Fastest: halving-doubling" in find("all-reduce").run({"ranks": 1024})
    balance = comm.ring_balance(payload=4000, bandwidth=50e9, latency=1e-5)
    assert round(balance, 3) == 0.008 and "= 0.008 ranks" in find("all-reduce").run(
        {"payload": 4000}
    )
