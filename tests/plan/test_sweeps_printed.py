"""Published steps are what their tables say, and the planner comes near them."""

import pytest

from mathlib.checks import InputError
from mathlib.compute import conventions
from mathlib.plan import sweeps
from mathlib.plan.step import step
from mathlib.specs import table

TFLOP = {  # a device's TFLOP/s as the same line of the table prints them, and whose count it is
    "nemo-llama2-7b": (780, "nemo"),
    "nemo-llama2-13b": (760, "nemo"),
    "nemo-llama3-8b": (711, "nemo"),
    "megatron-llama3-8b": (800, "megatron-lm-2024"),
    "megatron-llama3-70b": (780, "megatron-lm-2024"),
    "megatron-llama3-405b": (834, "megatron-lm-2024"),
    "bridge-llama3-8b": (744, "megatron-bridge"),
    "bridge-llama3-70b": (719, "megatron-bridge"),
    "bridge-llama3-405b": (737, "megatron-bridge"),
}


@pytest.mark.parametrize("name", table("printed"))
def test_tokens_and_flop_of_a_line_agree(name):
    run = sweeps.find_printed(name).run
    rate, convention = TFLOP[name]
    flop = conventions.training_flop(run.on.model, convention=convention, tokens=run.on.tokens)
    counted = flop.total * run.each / run.seconds / 1e12
    assert counted == pytest.approx(rate, rel=0.01 if "405b" in name else 0.002)


@pytest.mark.parametrize("name", sweeps.printed())
def test_the_planner_comes_near(name):
    one = sweeps.find_printed(name)
    predicted = step(one.run.on, one.run.layout).total
    assert predicted == pytest.approx(one.run.seconds, rel=0.2)


def test_of_a_sweep_it_is_the_quickest():
    found = sweeps.find_sweep("13b-2k-64")
    one = sweeps.find_printed("13b-2k-64")
    assert one.run.seconds == min(trial.seconds for trial in found.timed)
    assert one.run.layout == found.timed[0].layout and found.timed[0].name in one.title


def test_a_name_that_is_none_is_refused():
    with pytest.raises(InputError, match="name = 'nemo-llama3-9b'"):
        sweeps.find_printed("nemo-llama3-9b")
