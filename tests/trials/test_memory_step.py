"""A recorded step: which is fullest, where a limit ends it, and what the chapter's table says."""

import pytest

from mathlib.meters import live
from mathlib.trials import memory_step
from mathlib.trials.memory import P


@pytest.fixture(scope="module")
def fresh():
    return memory_step.watched()


def test_the_second_step_is_higher_by_the_state(fresh):
    low, high = memory_step.peaks(fresh)
    assert high - low == pytest.approx(8 * P, rel=0.001)
    assert memory_step.peaks(memory_step.watched(resumed=True)) == [high] * 2
    assert memory_step.needed().total == pytest.approx(high, rel=0.001)
    assert memory_step.needed(sequences=4).total < 0.9 * high


def test_a_drawn_step_has_its_peak_and_its_phases(fresh):
    every, last = memory_step.drawn(fresh), memory_step.drawn(fresh, step=-1)
    assert len(every["rows"]) == len(fresh.rows) > 4 * len(last["rows"])
    for drawn in (every, last):
        assert max(sum(row.values()) for row in drawn["rows"]) == fresh.total(fresh.peak)
        assert drawn["marks"][-1] == (len(drawn["rows"]), "update")
    assert [name for _, name in last["marks"]] == ["forward", "backward", "update"]


def test_where_a_limit_ends_a_run_and_what_grew():
    rows = [{"weights": 2, "activations": a, "optimizer": o} for a, o in ((3, 0), (0, 4), (3, 4))]
    marks = [(1, "forward"), (2, "step"), (3, "forward"), (3, "step")]
    line = live.Timeline(rows=rows, marks=marks)
    assert memory_step.dies(line, 4) == ("forward of step 1", "activations")
    assert memory_step.dies(line, 5.5) == ("update of step 1", "optimizer")
    assert memory_step.dies(line, 6) == ("forward of step 2", "activations")
    assert memory_step.dies(line, 9) == ("never", "")


def test_devices_are_told_apart_by_the_formulas(fresh):
    found = [memory_step.dies(fresh, limit)[0] for limit in memory_step.devices()]
    steps = [f"{phase} of step {n}" for n in (1, 2) for phase in ("forward", "backward")]
    assert found == [*steps, "never"]


@pytest.mark.parametrize(
    ("tokens", "how", "fullest"),
    [
        (2_500, {}, "update"),
        (2_600, {}, "loss"),
        (2_800, {"recompute": "full"}, "update"),
        (2_900, {"recompute": "full"}, "first layer"),
        (28_200, {"recompute": "full"}, "first layer"),
        (28_400, {"recompute": "full"}, "loss"),
        (8_000, {"loss": "fused", "logits_bytes": 2}, "head"),
        (32_768, {"recompute": "full", "loss": "fused"}, "first layer"),
    ],
)
def test_the_fullest_moment_of_llama_2(tokens, how, fullest):
    assert memory_step.fullest_at("llama2-7b", tokens=tokens, **how) == fullest


def test_the_moments_of_a_model_add_up():
    found = memory_step.points("llama3-8b")
    assert max(found, key=lambda moment: sum(found[moment].values())) == "loss"
    assert "gradients of logits" in found["loss"] and "activations" not in found["update"]


def test_the_first_step_of_llama_2_fits_an_a100_up_to_the_update():
    found = memory_step.points("llama2-7b")
    loss, update = (sum(found[moment].values()) for moment in ("loss", "update"))
    made = found["update"]["optimizer states"]
    assert [round(size / 1e9) for size in (loss - made, made, update)] == [62, 54, 108]
