"""Published rates by one count: what C05 and C06 print."""

from collections import Counter

import pytest

from mathlib import specs
from mathlib.trials import compute_rates as rates


@pytest.fixture(scope="module")
def runs():
    return rates.runs()


def test_how_many_stay_below_depends_on_what_counts(runs):
    assert len(runs) == 477
    counted = {
        "executed": [run.made() for run in runs],
        "needed": [run.needed for run in runs],
        "causal": [run.made(causal=True) for run in runs],
        "NeoX": [run.by_neox for run in runs],
    }
    below = {how: rates.below(made) for how, made in counted.items()}
    assert below == {"executed": 84, "needed": 209, "causal": 127, "NeoX": 88}
    low = Counter(
        r.kernel for r, made in zip(runs, counted["executed"], strict=True) if made < 115e12
    )
    assert low == {"flash 2": 31, "flash 1": 29, "fused": 5, "plain": 14, "": 5}


def test_a_large_run_makes_what_its_source_prints(runs):
    large = {run.job: run for run in runs if run.source == "large"}
    assert large["ZeRO-3 174.6B, 1,536 A100"].made() == pytest.approx(44e12)
    assert large["ZeRO-3 174.6B, 1,536 A100"].needed == pytest.approx(33e12, rel=0.01)


def test_every_tuned_job_passes(runs):
    best = sorted(map(round, rates.best(runs, "flash 2").values()))
    assert best == [155, 164, 170, 178, 183, 184, 188, 189, 207, 210]
    assert min(run.made() for run in runs if run.source == "Mosaic") > rates.MARK
    assert len(rates.mosaic_others()) == 80 and min(rates.mosaic_others()) > rates.MARK


def test_the_lines_of_the_figure_end_at_the_fastest_run(runs):
    lines = rates.by_source(runs)
    assert {name: len(line) for name, line in lines.items()} == {
        name: int(name.split()[0]) for name in rates.CALLED.values()
    }
    assert all(line[-1][0] == 100 and line == sorted(line) for line in lines.values())


def test_one_difference_alone_can_cost_the_pass():
    pairs = rates.pairs()
    assert all(pair.second < 115 < pair.first for pair in pairs) and len(pairs) == 7
    assert {pair.what for pair in pairs} == {"batch", "layout", "link", "shape", "software"}


def test_small_models_stay_below_in_every_layout():
    grid = rates.small_models()
    layouts = [rate for made in grid.values() for rate in made]
    assert (len(grid), len(layouts), rates.below(layouts)) == (148, 1549, 1306)
    narrow = [max(made) for (width, *_), made in grid.items() if width == 1024]
    assert len(narrow) == 72 and max(narrow) < rates.MARK


def test_a_v100_makes_more_and_less_than_30_to_40():
    made = rates.on_v100()
    assert (len(made), min(made), max(made)) == (70, 9.2e12, 64.2e12)


def test_a_shorter_wait_explains_the_gain():
    for by_wait, printed in rates.shorter_waits().values():
        assert printed == pytest.approx(by_wait, rel=0.02)
    for order, most in (("zb-1p", 1.15), ("zb-2p", 1.30), ("interleaved", 1.15)):
        gains = rates.reordered(order)
        assert len(gains) == 12 and round(max(printed for _, printed in gains), 2) == most
    missed = rates.waiting_of_missed()
    assert [round(end(missed), 2) for end in (min, max)] == [0.22, 0.47]


def test_a_single_matmul_comes_nearer_to_the_peak_than_any_run():
    assert max(rates.hfus()) < rates.alone() < 1
    assert rates.alone() * specs.find_device("a100-80gb").half == 271.2e12
