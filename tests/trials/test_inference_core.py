"""One core's steps on a model of no size: what is timed, and what the formula makes of it."""

from mathlib.meters.flop import FlopMeter
from mathlib.model import gpt
from mathlib.trials import inference_core as core

TINY = gpt.small(layers=1, width=32, vocab=64, context=8)


def test_a_step_is_foreseen_by_the_slower_of_two_rates():
    one = core.Core(reads=4e9, multiplies=8e9, thin={1: 1e9, 64: 8e9}, seconds={})
    weights = 12 * 32 * 32 + 64 * 32
    least = 4 * weights / 4e9
    assert least < one.foreseen(1, TINY) < 1.1 * least  # the cache comes on top
    assert one.foreseen(1, TINY, thin=True) > one.foreseen(1, TINY)
    assert one.foreseen(64, TINY) == one.foreseen(64, TINY, thin=True) > 15 * least
    timed = one._replace(seconds={64: 2 * one.foreseen(64)})
    assert timed.off() > 0 and set(timed.lines()) == {"formula", "its thin matmuls", "measured"}
    assert timed.lines()["formula"][0][1] == 2 * timed.lines()["measured"][0][1]


def test_what_is_timed_is_a_step_and_its_matmuls():
    model = gpt.GPT(TINY).eval()
    with FlopMeter(model) as step:
        core.ready(model, 2)()
    matrices = [w for w in model.parameters() if w.dim() == 2 and len(w) >= 32]
    with FlopMeter(model) as alone:
        core.bare(matrices, 2)()
    weights = sum(w.numel() for w in matrices)
    assert sum(alone.parts.values()) == 2 * 2 * weights < sum(step.parts.values())
    found = core.core(TINY, batches=(1, 2), rounds=1)
    assert set(found.seconds) == set(found.thin) == {1, 2} and min(found.seconds.values()) > 0
    assert found.reads > 0 < found.multiplies


def test_jobs_take_turns_and_keep_their_least(monkeypatch):
    ticks, order = iter([0.0, 3.0, 3.0, 4.0, 4.0, 6.0, 6.0, 8.0]), []
    monkeypatch.setattr(core.time, "thread_time", lambda: next(ticks))
    jobs = {1: lambda: order.append(1), 2: lambda: order.append(2)}
    assert core.least(jobs, rounds=2) == {1: 2.0, 2: 1.0} and order == [1, 2, 1, 2]
