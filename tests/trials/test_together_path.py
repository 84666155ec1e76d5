"""The decision path of named jobs, and of jobs that were published."""

import pytest

from mathlib.layout import Layout
from mathlib.plan.room import Room, find_keeps
from mathlib.plan.simplest import TOLERANCE, level
from mathlib.plan.step import seconds_of
from mathlib.trials import together_path as study
from mathlib.trials.together_published import RESERVE


def test_small_models_need_data_parallelism_and_large_ones_more():
    found = {(m, n): study.steps(m, n)[-1] for m in study.MODELS for n in study.GPUS}
    assert all(step.longer <= TOLERANCE for step in found.values() if step.choice)
    assert found["llama3.2-1b", 64].level == "data parallelism"
    assert found["llama3-8b", 64].level == found["llama3-8b", 8].level == "ZeRO 3"
    assert found["llama3-70b", 64].level == found["llama3-70b", 1024].level == "a pipeline"
    assert found["llama3-405b", 1024].level == "context parallelism"
    nowhere = {job for job, step in found.items() if not step.choice}
    assert nowhere == {("llama3-70b", 8), ("llama3-405b", 8), ("llama3-405b", 64)}
    for model, gpus in nowhere:
        assert study.answer(model, gpus) == "does not fit"


def test_levels_are_judged_in_few_words():
    words = [study.judged(step) for step in study.steps("llama3-405b", 1024)]
    assert words[:2] == ["too few sequences"] * 2 and words[-1] == "the quickest"
    assert study.judged(study.steps("llama3-70b", 64)[0]) == "does not fit"


def test_more_sequences_than_gpus_bring_data_parallelism_back():
    assert study.steps("llama3-8b", 1024, 2048)[-1].level == "data parallelism"


def test_zero_alone_has_fewer_layouts():
    zero, every = study.tried("llama3-70b", 64, True), study.tried("llama3-70b", 64)
    assert 100 * zero[0] < every[0] and zero[1] < every[1]


def test_published_runs_are_on_the_level_that_the_path_takes_or_near_it():
    found = [study.asked(name) for name in study.RUNS]
    assert sum(one.agrees for one in found) == 7
    for one in found:
        assert one.taken.choice and level(one.taken.choice.layout) == one.taken.level
        assert one.agrees or one.longer < 0.1
        assert one.run.device.name == "h100-sxm"


@pytest.mark.parametrize(("model", "gpus"), [("llama3.2-1b", 64), ("llama3-70b", 1024)])
def test_a_layout_is_said_by_its_degrees(model, gpus):
    choice = study.steps(model, gpus)[-1].choice
    words = study.answer(model, gpus)
    assert f"DP {choice.layout.data}" in words and f"ZeRO {choice.layout.zero}" in words
    assert ("TP" in words) == (choice.layout.tensor > 1)


def test_tensor_ranks_without_stages_miss_memory_with_zero_1_and_time_with_zero_2():
    """What the chapter says of the 70B model on 64 GPUs."""
    on = study.on("llama3-70b")
    needed, seconds = {}, {}
    for zero in (1, 2):
        lay = Layout(data=8, tensor=8, zero=zero, sequence_parallel=True, micro_batches=64)
        needed[zero] = Room(on.model, study.TOKENS, keeps=find_keeps()).total(lay)
        seconds[zero] = sum(seconds_of(on, lay))
    room = on.device.room - RESERVE
    assert f"{needed[1] / 1e9:.0f}" == "89" and needed[2] < room < needed[1]
    best = study.steps("llama3-70b", 64)[-1].choice.seconds
    assert seconds[1] < 1.01 * best and f"{seconds[2]:.0f}" == "144"
