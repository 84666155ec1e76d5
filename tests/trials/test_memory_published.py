"""Allocated bytes on B200s: the formula is below them everywhere, and nearer with the buffers."""

from mathlib.trials import memory_published as published


def test_all_stages_are_met_within_what_the_trial_says():
    found = published.groups()
    assert sum(map(len, found.values())) == 23
    every = [one for group in found.values() for one in group]
    formula, mended, reserved = published.beyond(every)
    assert (round(min(formula), 1), round(max(formula), 1)) == (-7.3, -1.3)
    assert min(mended) > -4 and max(mended) < 0
    assert (round(min(reserved), 1), round(max(reserved), 1)) == (4.5, 15.4)
    for model in ("Llama, 12 layers", "Llama, 4 layers"):
        _, mended, _ = published.beyond(found[model, "4,096"])
        assert min(mended) > -1
    assert all(one.allocated < one.reserved for one in every)


def test_a_run_has_its_own_shape_and_a_stage_its_own_sizes():
    run = published.RUNS["deepseek-v2-4"]
    m = published.model_of(run, 8192)
    assert (m.context, m.width, m.experts.routed, m.experts.dense_layers) == (8192, 5120, 160, 1)
    one, two = published.stages(run, 4096, {"expert": 4, "pipeline": 2, "data": 4}, [1, 2], [2, 3])
    assert (one.allocated, two.reserved) == (2**30, 3 * 2**30) and one.formula < two.formula
    whole = published.stages(published.RUNS["llama-4"], 4096, {"data": 8}, [1], [1])[0]
    cut = published.stages(published.RUNS["llama-4"], 4096, {"tensor": 8}, [1], [1])[0]
    assert whole.formula > 3 * cut.formula


def test_ranges_are_said_with_their_sign():
    assert published.said([-1.26, 2.0]) == "−1.3 to +2.0 %"
    assert published.rows()[0][:3] == ["Llama, 12 layers", "4,096", "5"]
