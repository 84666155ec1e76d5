"""A stage does what its turn is, and says what was not done."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import flush, interleaved, simulate, times
from mathlib.workshop.ranks import Me
from mathlib.workshop.stages import B, F, Pipeline


def alone(m=2):
    pipe = Pipeline(1, m)
    return pipe, pipe.stage(Me(0, 1))


def test_a_pipeline_of_one_is_one_process():
    pipe, stage = alone()
    for i in range(2):
        stage.forward(i)
        stage.backward(i)
    assert not list(pipe.wrong("1f1b")) and stage.most == 1
    assert sum(step.seconds for step in stage.me.steps) == 2 * (F + B)


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        (["F0", "F0"], "forward of micro-batch 0 for the second time"),
        (["B0"], "backward of micro-batch 0 before its forward"),
        (["F0", "B0", "B0"], "backward of micro-batch 0 for the second time"),
        (["F0", "B0", "F0"], "forward of micro-batch 0 for the second time"),
        (["F2"], "forward of micro-batch 2, chunk 0: expected micro-batches 0 to 1, chunks 0 to 0"),
    ],
)
def test_what_is_not_its_turn_is_refused(turns, said):
    _, stage = alone()
    with pytest.raises(InputError, match=said):
        for kind, i in turns:
            (stage.forward if kind == "F" else stage.backward)(int(i))


def test_what_comes_from_others_is_asked_for():
    pipe = Pipeline(2, 1)
    first, last = pipe.stage(Me(0, 2)), pipe.stage(Me(1, 2))
    with pytest.raises(InputError, match="forward of micro-batch 0: no input"):
        last.forward(0)
    y = first.forward(0)
    with pytest.raises(InputError, match="backward of micro-batch 0: no gradient of its output"):
        first.backward(0)
    with pytest.raises(InputError, match="backward of micro-batch 0: a gradient of its output"):
        last.forward(0, y)
        last.backward(0, y)


def test_what_is_missing_is_said():
    pipe, stage = alone()
    stage.forward(0)
    stage.backward(0)
    stage.forward(1)
    said = list(pipe.wrong("1f1b"))
    assert said[0] == "stage 0 has not done the backward of micro-batch 1"
    assert "the term of micro-batch 1 is missing" in said[1]
    pipe = Pipeline(1, 1, 2)
    pipe.stage(Me(0, 1))
    assert "forward of micro-batch 0 through chunk 0" in next(pipe.wrong("interleaved"))


def test_the_time_is_that_of_the_simulated_schedule():
    how = times.Times(forward=F, backward=B)
    plain = flush.one_forward_one_backward(stages=4, micro_batches=8)
    assert Pipeline(4, 8).seconds == simulate.simulate(plain, how).total
    looped = interleaved.interleaved(stages=2, micro_batches=4, chunks=2)
    assert Pipeline(2, 4, 2).seconds == simulate.simulate(looped, how).total
