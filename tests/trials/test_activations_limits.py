"""Limits by size, by hand; what the sources say is counted as they say it."""

import pytest

from mathlib.trials import activations_limits as limits


def test_neox_as_its_source_says():
    assert limits.sizes_named() == [] and len(limits.NEOX) == 8
    assert sum(limits.CONFIGS.values()) == 42
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "NEOX", ("checkpoint_above_bytes",))
        assert limits.sizes_named() == ["checkpoint_above_bytes"]


@pytest.mark.parametrize("name, worst", [("gpt3-175b", 0.104), ("llama3-8b", 0.039)])
def test_a_limit_is_never_better_than_the_best(name, worst):
    found = limits.by_size(name)
    assert all(again >= best - 1e-12 for _, again, best in found)
    assert max(again - best for _, again, best in found) == pytest.approx(worst, abs=0.001)
    sizes = [size for size, *_ in found]
    assert sizes[0] == 2 and sizes == sorted(sizes)


def test_in_order():
    unit = 8192 * 4096
    assert limits.in_order("llama3-8b", 2 * unit, free=False)
    assert not limits.in_order("llama3-8b", 2 * unit, free=True)
    assert not limits.in_order("llama3-8b", 0.5 * unit, free=False)
