"""The plain loop by the oracle of one process, under each order, and what its stages send."""

import pipelines
import pytest

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.plain import pipeline
from mathlib.schedule import check, orders
from mathlib.traffic import volumes

ORDERS = ("gpipe", "1f1b", "interleaved")


def model(stages):
    return pipelines.shape(layers=2 * stages, tied=False)


def order(name, stages, rounds=1):
    found = orders.make(name, stages=stages, micro_batches=rounds * stages)
    assert not check.tags_needed(found)  # the plain loop sends none
    return found


@pytest.mark.parametrize("stages", [2, 3])
def test_weights_after_every_step_are_those_of_one_process(stages):
    cases = [
        (model(stages), order(name, stages, rounds), optimizer, {"plain": True})
        for name in ORDERS
        for rounds, optimizer in enumerate(oracle.OPTIMIZERS, 1)
    ]
    pipelines.check(stages, cases)


def test_without_what_arrives_or_the_weight_of_a_micro_batch_they_are_apart():
    def deaf():
        receive = pipeline.Pipeline.receive
        pipeline.Pipeline.receive = lambda self, action: (
            None if (given := receive(self, action)) is None else given * 0.5
        )
        return pipelines.by_ranks(model(2), order("1f1b", 2), "SGD", 1, plain=True)

    def unweighted():
        loss = pipeline.F.cross_entropy
        pipeline.F.cross_entropy = lambda y, target, reduction: (
            loss(y, target) * 40  # as if every micro-batch had as many tokens that count
        )
        return pipelines.by_ranks(model(2), order("1f1b", 2), "SGD", 1, plain=True)

    wanted = pipelines.by_one(model(2), "SGD", steps=1)
    for broken in (deaf, unweighted):
        assert pipelines.apart(launch.run(broken, 2), wanted) > 1e-6, broken


@pytest.mark.parametrize("stages", [2, 3])
def test_messages_are_those_of_the_formula_and_of_the_sturdy_class(stages):
    schedules = [order(name, stages, 2) for name in ORDERS]
    cases = [(model(stages), s, {"plain": plain}) for s in schedules for plain in (True, False)]
    for stage, found in enumerate(launch.run(pipelines.all_measured, stages, cases)):
        for schedule, plain, sturdy in zip(schedules, found[::2], found[1::2], strict=True):
            wanted = volumes.pipeline_parallel(
                model(stages),
                pipeline=stages,
                stage=stage,
                chunks=schedule.model_chunks // stages,
                micro_batches=2 * stages,
                tokens=pipelines.CONTEXT,
                bytes_per_element=8,
            )
            assert plain["bytes"] == wanted.total, schedule.name
            assert plain["on the wire"] == plain["predicted on the wire"]
            for same in ("bytes", "messages", "to", "under way"):
                assert plain[same] == sturdy[same], (schedule.name, same)
