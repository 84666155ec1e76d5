"""What fits after pretraining: its numbers are the formulas'."""

from mathlib.memory import adapters, preference
from mathlib.show import says
from mathlib.show.experiments import find

EXPERIMENT = find("after-pretraining")
HOW = {"tokens": 4096, "recompute": "full"}


def test_ppo_of_eight_billion_does_not_fit_and_writing_needs_most():
    found = preference.phases("llama3-8b", method="ppo", devices=8, sequences=64, **HOW)
    html = EXPERIMENT.run()
    assert "<b>It does not fit</b>" in html and "while writing" in html
    assert "<b>It fits</b>" in EXPERIMENT.run({"sequences": 32})
    for phase in found.values():
        assert says.size(phase.total) in html


def test_writers_apart_have_a_cache_of_all_and_nobody_else():
    apart = preference.split("llama3-8b", method="ppo", devices=8, writers=2, sequences=64, **HOW)
    html = EXPERIMENT.run({"place": "split"})
    assert "<b>It does not fit</b>" in html and says.size(apart["writing"].total) in html
    assert says.size(apart["training the critic"].total) in html


def test_offloaded_roles_take_nothing():
    here, away = (EXPERIMENT.run({"place": p}) for p in ("together", "offload"))
    assert "policy at rest" in here and "at rest" not in away


def test_adapters_are_shared_and_one_gpu_gathers_nothing():
    eight = adapters.sharded("llama3-8b", devices=8, rank=16, **HOW)
    assert says.size(eight.total) in EXPERIMENT.run({"method": "lora"})
    four = {"quantised": True, "whole_bits": True}
    eight = adapters.sharded("llama3-8b", devices=8, rank=16, **four, **HOW)
    assert says.size(eight.total) in EXPERIMENT.run({"method": "qlora"}), "FSDP leaves buffers"
    one = adapters.training("llama3-8b", rank=16, **HOW)
    assert says.size(one.total) in EXPERIMENT.run({"method": "lora", "devices": 1})
    assert adapters.sharded("llama3-8b", devices=1, rank=16, **HOW).total == one.total


def test_full_tuning_of_eight_billion_needs_more_than_one_gpu():
    assert "<b>It does not fit</b>" in EXPERIMENT.run({"method": "full", "devices": 1})
    assert "<b>It fits</b>" in EXPERIMENT.run({"method": "full", "devices": 2})
