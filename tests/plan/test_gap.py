"""A difference is split without remainder, what was planted is found, and published pairs agree."""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from mathlib.checks import InputError
from mathlib.plan import gap, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.published_runs import published
from mathlib.specs import Layout, find_cluster

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import calibrate

TABLE = calibrate.load()
PUBLISHED = {run.name: run for run in published()[0]}
ON = step.machine("llama3-8b", find_cluster("dgx-h100"), find_rates("h100-sxm"), tokens=4096)
LAYOUT = Layout(data=16, tensor=2, sequence_parallel=True, micro_batches=2, zero=1)


def run(name: str) -> gap.Run:
    one = PUBLISHED[name]
    rates = calibrate.rates_of(TABLE, one)
    on = step.machine(one.model, one.cluster, rates, tokens=one.tokens, device=one.device)
    return gap.Run(on, one.layout, one.seconds)


def test_what_is_not_explained_is_a_part_of_its_own() -> None:
    predicted = step.step(ON, LAYOUT).total
    found = gap.measured(ON, LAYOUT, seconds=1.3 * predicted)
    assert found.total == pytest.approx(1.3 * predicted)
    assert found.amount("unexplained") == pytest.approx(0.3 * predicted)
    assert found["predicted"].total == predicted
    assert gap.measured(ON, LAYOUT, seconds=predicted).amount("unexplained") == 0
    assert "is the 80% interval" in found.title


@pytest.mark.parametrize("name", ["network", "memory", "matmul", "data_hidden"])
def test_a_constant_that_was_changed_is_among_the_suspects(name: str) -> None:
    planted = getattr(ON.rates, name) / 3
    slow = replace(ON, rates=replace(ON.rates, **{name: planted}))
    T = step.step(slow, LAYOUT).total
    found = {one.name: one for one in gap.suspects(ON, LAYOUT, seconds=T)}
    assert found[name].needed == pytest.approx(planted, rel=1e-6)
    assert "would explain it alone" in str(found[name])


def test_what_cannot_explain_all_says_how_much_it_can() -> None:
    predicted = step.step(ON, LAYOUT).total
    found = gap.suspects(ON, LAYOUT, seconds=10 * predicted)
    assert [one.needed is None for one in found] == sorted(one.needed is None for one in found)
    hidden = next(one for one in found if one.name == "data_hidden")
    assert hidden.needed is None and 0 < hidden.most < 9 * predicted
    assert "at most" in str(hidden)
    quick = gap.suspects(ON, LAYOUT, seconds=0.9 * predicted)
    assert quick[0].needed > quick[0].now


def test_two_runs_differ_by_their_parts_and_by_their_changes() -> None:
    mine = gap.Run(ON, LAYOUT, 3.0)
    a100 = step.machine("llama3-70b", find_cluster("dgx-a100"), find_rates("a100-80gb"))
    other = gap.Run(a100, Layout(data=4, tensor=8, pipeline=4, micro_batches=8), 20.0)
    more = 3.0 - 20.0 * mine.each / other.each
    parts, changed = gap.between(mine, other), gap.changes(mine, other)
    assert parts.total == pytest.approx(more) and changed.total == pytest.approx(more)
    assert parts.amount("unexplained") == pytest.approx(changed.amount("unexplained"))
    assert set(changed) >= {"model and length", "device and program", "layout", "unexplained"}
    assert gap.between(mine, mine).total == 0


def test_most_of_a_published_difference_is_explained() -> None:
    """Korthikanti et al., Table 5: the same run with full and with selective recomputation."""
    left = []
    for size in ("22b", "175b", "530b", "1t"):
        full, selective = run(f"kor22-t5-{size}-full"), run(f"kor22-t5-{size}-seqsel")
        found = gap.between(full, selective)
        assert found.total == pytest.approx(full.seconds - selective.seconds)
        assert found.amount("recomputation") > 0.5 * found.total
        left.append(abs(found.amount("unexplained")) / found.total)
    assert median(left) < 0.3 and max(left) < 0.4  # 530B: the model says a third too much


def test_runs_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="seconds = 0"):
        gap.measured(ON, LAYOUT, seconds=0)
    with pytest.raises(InputError, match="layout = None"):
        gap.Run(ON, None, 1.0)
