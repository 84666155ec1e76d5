"""What stages hold by order, recomputation and split; what waits for the weights' gradients."""

import pytest

from mathlib.trials import schedules_memory as memory


def test_bytes_fall_with_the_stage_in_1f1b_and_are_even_there_and_back():
    ways = ("1F1B, as it is", "recomputed on 0 and 1", "recomputed everywhere", "ZB-V")
    plain, again, all_again, there = memory.held([memory.WAYS[name] for name in ways])
    assert plain == sorted(plain, reverse=True) and plain[0] > 3 * plain[-1]
    assert again[0] < plain[0] / 3 and again[2:] == plain[2:]
    assert again[:2] == all_again[:2] and max(all_again) < max(again) / 2
    assert max(there) < 1.02 * min(there)


def test_a_large_head_fills_the_last_stage():
    ((first, *_, last),) = memory.held([memory.Way()], memory.WORDS)
    assert last > 1.5 * first


def test_a_pipeline_is_as_slow_as_its_slowest_stage():
    took = {name: memory.took(way, 8) for name, way in memory.WAYS.items()}
    assert took["1F1B, as it is"] == 33 and took["ZB-V"] == 25.5
    assert took["1, 1, 2, 4 layers"] > 8 * 2 * 3
    assert memory.took(memory.Way(again=(0, 1, 2, 3))) == 140 > memory.took(memory.Way(again=(0,)))


def test_with_flash_attention_all_that_forward_saved_waits():
    for attention, share in (("flash", 0.992), ("plain", 0.491)):
        saved, x, both, found = memory.waits(attention)
        assert (x, both) == (7, 16) and found == both / saved == pytest.approx(share, abs=1e-3)


def test_gpt3_fits_80_gb_only_with_fewer_layers_on_its_first_stages():
    even, quick, least = map(memory.gpt3, ([12] * 8, memory.QUICK, memory.by_memory()))
    assert max(least) < max(quick) < 80e9 < max(even) and sum(x > 80e9 for x in even) == 3
    assert max(memory.gpt3(**memory.FLASH)) < 80e9
