"""The zero-bubble authors' own steps: their bubble rates come out of our simulator."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import orders
from mathlib.schedule.published import published
from mathlib.schedule.simulate import simulate

STEPS = {name: step for name, step in published().items() if step.forward}
EXACT = 6e-5  # they print four digits


def simulated(step, order, *, blocking=False, **options):
    sizes = {"stages": step.stages, "micro_batches": step.micro_batches}
    return simulate(orders.make(order, **sizes, **options), step.times(blocking=blocking)).total


@pytest.mark.parametrize("order", ["1f1b", "zb-h1", "zb-h2"])
def test_the_simulator_finds_the_bubble_rates_that_the_authors_print(order):
    """Their cost is that of the stage that takes longest by itself: H2 has no flush there."""
    for step in STEPS.values():
        sizes = {"stages": step.stages, "micro_batches": step.micro_batches}
        found = simulate(orders.make(order, **sizes), step.times()).longest_stage
        rate = 1 - step.micro_batches * (step.forward + step.inputs + step.weight) / found
        assert rate == pytest.approx(step.bubbles[order], abs=EXACT), step.name


def test_of_interleaving_they_count_p_messages_less():
    """Missed in all twelve, and found in all twelve with p of the 2 (p v - 1) messages left out."""
    for step in STEPS.values():
        work = step.micro_batches * (step.forward + step.inputs + step.weight)
        took = simulated(step, "interleaved", chunks=step.chunks)
        assert 1 - work / took > step.bubbles["interleaved"] + 5e-4, step.name
        fewer = 1 - work / (took - step.stages * step.message)
        assert fewer == pytest.approx(step.bubbles["interleaved"], abs=EXACT), step.name


def test_a_name_that_is_no_order_of_a_step_is_refused():
    step = published()["6.2B on 16 stages, 48 larger micro-batches"]
    assert step.gain("zb-v") == pytest.approx(0.2278, abs=1e-4)
    with pytest.raises(InputError, match="order = 'gpipe'"):
        step.gain("gpipe")


def test_the_shapes_of_the_authors_models_fit_their_stages_and_their_names():
    """A layer is a chunk, and the first and the last stage have one layer less."""
    assert len(STEPS) == 12
    for step in STEPS.values():
        shape = step.shape
        assert shape["layers"] + 2 == step.stages * step.chunks, step.name
        blocks = 12 * shape["layers"] * shape["width"] ** 2
        assert 0.9 < blocks / (1e9 * float(step.name.partition("B")[0])) < 1, step.name
