"""Roles on one set of devices: each phase by its parts, and writing beside a real run."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch, specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.memory import fit, inference, preference
from mathlib.meters import saved
from mathlib.model import gpt
from mathlib.parallel.plain import grpo, script

P = params.total("llama3-8b")


def test_who_rests_keeps_a_shard_and_who_is_trained_its_states():
    found = preference.phases("llama3-8b", method="ppo", devices=8, tokens=2048, sequences=64)
    assert list(found) == ["writing", "scoring", "training the policy", "training the critic"]
    writing = found["writing"]
    for role, each in (("policy", 14), ("critic", 14), ("reference", 2), ("reward", 2)):
        assert writing[f"{role} at rest"] == each * P / 8
    assert writing["weights to write with"] == 2 * P
    cache = inference.kv_cache("llama3-8b", tokens=2048, sequences=64).total
    assert writing.amount("cache") == cache
    assert writing.total == 32 * P / 8 + 2 * P + cache
    alone = fit.sharded("llama3-8b", devices=8, recompute="full", tokens=2048)
    assert found["training the policy"].total == alone.total + 18 * P / 8
    critic = fit.sharded("llama3-8b", devices=8, recompute="full", tokens=2048, logits_bytes=0)
    assert found["training the critic"].total == critic.total + 18 * P / 8 < alone.total + 18 * P
    assert found["scoring"].total > 32 * P / 8


def test_dpo_scores_pairs_and_writes_nothing():
    found = preference.phases("llama3-8b", method="dpo", devices=8, tokens=2048, micro_batch=2)
    assert list(found) == ["scoring", "training the policy"]
    how = {"devices": 8, "micro_batch": 4, "recompute": "full", "tokens": 2048}
    alone = fit.sharded("llama3-8b", **how).total
    assert found["training the policy"].total == alone + 2 * P / 8
    logits = 6 * 4 * 2048 * specs.find_model("llama3-8b").padded_vocab
    assert found["scoring"]["logits"] == logits


def test_offloaded_a_phase_holds_its_own_role_alone():
    how = {"method": "ppo", "devices": 8, "tokens": 2048}
    here, away = (preference.phases("llama3-8b", **how, offload=o) for o in (False, True))
    for name, phase in away.items():
        assert not [part for part in phase if part.endswith("at rest")]
        assert phase.total < here[name].total
    assert here["training the critic"].total - away["training the critic"].total == 18 * P / 8


def test_a_small_reward_model_and_what_changes_nothing():
    how = {"method": "ppo", "devices": 8, "tokens": 2048}
    small = preference.phases("llama3-70b", **how, scorer="llama3-8b")["writing"]
    assert small["critic at rest"] == 14 * P / 8 and small["policy at rest"] > 100e9
    for more, why in (
        ({"method": "dpo", "sequences": 4}, "no effect on dpo"),
        ({"method": "dpo", "tensor": 2}, "no effect on dpo"),
        ({"method": "grpo", "scorer": "llama3-8b"}, "neither critic nor reward"),
        ({"method": "rlhf"}, "expected one of dpo, grpo, ppo"),
    ):
        with pytest.raises(InputError, match=why):
            preference.phases("llama3-8b", **how | more)


def test_writing_holds_what_the_formula_says_in_a_real_run():
    """GRPO on two ranks in 32 bits, whose frozen model is not sharded."""
    shape, T = script.MODEL.but(layers=4, context=128), 96

    def written():
        way = grpo.Together(gpt.GPT(shape), torch.optim.Adam, script.vowels)
        prompts, dice = script.replies(2, 0, T=T)
        mine = prompts[dist.get_rank()], dice[dist.get_rank()]
        way.step(*mine, 4)  # so that the optimizer has its states
        states = [t for of in way.zero.optimizer.state.values() for t in of.values()]
        with saved.Storages(way.pen) as meter:
            for tensor in (*way.first.parameters(), *(f.shard for f in way.zero.flats), *states):
                meter.follow(tensor)
            way.written(*mine)
        return meter.peak

    how = {"recipe": "adam-fp32", "bytes_per_element": 4}
    told = preference.phases(shape, method="grpo", devices=2, tokens=8 + T, sequences=4, **how)[
        "writing"
    ]
    wanted = told.total + told.amount("reference at rest")
    one = told.amount("cache") / (2 * shape.layers)  # keys or values of a layer
    peak = launch.run(written, 2)[0]
    assert wanted < peak < wanted + 5 * one, (
        "a layer's are there old and new, and as matmuls' copies"
    )


def test_those_that_only_write_have_all_caches_and_the_others_none():
    how = {"method": "ppo", "devices": 8, "tokens": 2048, "sequences": 64}
    apart = preference.split("llama3-8b", writers=2, **how)
    cache = inference.kv_cache("llama3-8b", tokens=2048, sequences=4 * 64).total
    assert apart["writing"].total == 2 * P + cache
    fewer = preference.phases("llama3-8b", **how | {"devices": 6})
    for name in ("scoring", "training the policy", "training the critic"):
        assert apart[name].total == fewer[name].total
    half = preference.split("llama3-8b", writers=2, tensor=2, **how)["writing"]
    assert half.total == P + cache / 2, "heads are shared"
    for more, why in (({"method": "dpo"}, "expected fewer"), ({"writers": 8}, "writers = 8")):
        with pytest.raises(InputError, match=why):
            preference.split("llama3-8b", **{"writers": 2} | how | more)
