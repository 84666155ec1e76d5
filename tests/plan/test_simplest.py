"""Level by level: what each allows, which is taken, and why the others are not."""

import pytest

from mathlib.checks import InputError
from mathlib.plan import simplest
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import machine
from mathlib.plan.search import search
from mathlib.specs import Layout, find_cluster, find_model

ALL = {
    "data parallelism": Layout(data=8, zero=2),
    "ZeRO 3": Layout(data=8, zero=3),
    "tensor or expert parallelism": Layout(data=4, tensor=2, zero=3),
    "a pipeline": Layout(data=2, tensor=2, pipeline=2),
    "context parallelism": Layout(data=2, context=2, pipeline=2),
}


def on(model="llama3-8b", cluster="dgx-h100", tokens=8192):
    there = find_cluster(cluster)
    return machine(find_model(model), there, find_rates(there.device), tokens=tokens)


def test_a_level_is_the_first_that_allows_a_layout():
    assert {name: simplest.level(layout) for name, layout in ALL.items()} == {n: n for n in ALL}
    assert simplest.level(Layout(data=8, expert=8)) == "tensor or expert parallelism"


@pytest.mark.parametrize(
    ("tolerance", "taken"),
    [(0, "a pipeline"), (0.04, "a pipeline"), (0.06, "ZeRO 3"), (0.2, "data parallelism")],
)
def test_the_simplest_of_those_that_are_nearly_the_quickest(tolerance, taken):
    seconds = dict(zip(ALL, (1.15, 1.05, 1.06, 1.0, 1.01), strict=True))
    ways = [(layout, seconds[name], name) for name, layout in ALL.items()]
    assert simplest.simplest(ways, tolerance) == taken
    assert simplest.simplest(ways[::-1], tolerance) == taken


def test_steps_go_on_until_one_is_near_and_are_what_a_search_finds():
    steps = simplest.decide(on("llama3-70b"), devices=64, sequences=512)
    names = list(simplest.LEVELS)
    assert [step.level for step in steps] == names[: len(steps)]
    whole = search(on("llama3-70b"), devices=64, sequences=512, risk=0.05).choices[0]
    assert steps[0].choice is None and "weights, gradients, optimizer states" in str(steps[0])
    for step in steps[1:]:
        assert step.longer == step.choice.seconds / whole.seconds - 1
        assert names.index(simplest.level(step.choice.layout)) <= names.index(step.level)
        assert step.choice.risk <= 0.05
    assert all(step.longer > simplest.TOLERANCE for step in steps[1:-1])
    assert steps[-1].longer <= simplest.TOLERANCE


def test_what_fits_and_is_quick_needs_no_second_step():
    (step,) = simplest.decide(on("gpt2-xl", tokens=1024), devices=64, sequences=512)
    assert step.level == "data parallelism" and "longer" in str(step) or "the quickest" in str(step)


def test_where_nothing_fits_every_step_says_so():
    steps = simplest.decide(on("llama3-405b"), devices=8, sequences=64)
    assert len(steps) == len(simplest.LEVELS) and not any(step.choice for step in steps)
    assert all("fits" in str(step) for step in steps)


def test_more_replicas_than_sequences_are_no_data_parallelism():
    first = simplest.decide(on(), devices=1024, sequences=512)[0]
    assert first.choice is None and "replicas divide the batch" in str(first)


@pytest.mark.parametrize("axis", ["only", "at_most"])
def test_axes_are_the_levels_business(axis):
    with pytest.raises(InputError, match=f"{axis} = .* expected none"):
        simplest.decide(on(), devices=8, sequences=8, **{axis: {"zero": 1}})


def test_no_way_is_refused():
    with pytest.raises(InputError, match="ways = \\[\\]"):
        simplest.simplest([])
