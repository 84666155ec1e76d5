"""Published figures beside the formulas, and a team's eight GPUs."""

import pytest

from mathlib.memory import preference
from mathlib.trials import after_published as published


def test_what_the_pull_request_saved_is_a_cache_and_logits():
    kept = published.forgotten()
    assert kept.formula == pytest.approx(kept.printed, rel=0.001)
    assert published.forgotten(sequences=2).formula < 0.6 * kept.printed
    assert published.early().printed > 10 * published.early().formula


def test_sixty_five_billion():
    for formula, printed in published.sixty_five().values():
        assert formula == pytest.approx(printed, rel=0.01)


def test_the_team_s_answers():
    ways = published.ways(4096)
    assert abs(ways["full, FSDP"] - ways["LoRA"]) < 0.2e9 and ways["QLoRA"] < ways["LoRA"]
    assert ways["LoRA, FSDP"] == pytest.approx(ways["full, FSDP"] / 2, rel=0.01)
    assert [name for name, n in ways.items() if published.answer(n) != "fits"] == ["PPO"]
    for line in published.growth([1024, 8192]).values():
        assert line[1][1] > 2 * line[0][1]
    lines = published.growth([8192])
    (_, cut), (_, whole) = lines["LoRA, in 8 shards"][0], lines["LoRA"][0]
    assert cut < lines["full, in 8 shards"][0][1] == pytest.approx(whole, abs=0.2)
    short, packed, long, _ = published.lora_parts(512, 8192).values()
    assert long["logits"] == 16 * short["logits"] > 10e9 and packed["weights"] < short["weights"]
    assert 3.8 < published.crossing() < 4


def test_bars_have_all_bytes_of_a_phase():
    for place in ("together", "offloaded", "apart"):
        for method in ("grpo", "ppo"):
            found = published.phases(method, place)
            for name, row in published.phase_bars(method, place).items():
                assert sum(row.values()) == pytest.approx(found[name].total)
    assert set(published.phases("dpo")) == {"scoring", "training the policy"}
    assert "cache" not in published.phase_bars("ppo")["scoring"]


def test_times_and_places():
    spent = published.seconds()
    assert spent["gathering weights"] < 0.01 * spent["writing"]
    assert spent["training, recomputed"] == 4 * spent["scoring"]
    assert spent["reading the prompts"] < 0.1 * spent["scoring"]
    best = published.seconds(1)
    assert all(best[phase] == pytest.approx(0.4 * seconds) for phase, seconds in spent.items())
    weights = 32 * published.P8 / 8
    assert published.offloaded() == pytest.approx(weights / 16e9)
    rows = {name: rest for name, *rest in published.placements()}
    assert [name for name, (*_, word) in rows.items() if word != "fits"] == ["together", "apart"]
    assert rows["apart, 4 rounds"][0] == "training the policy"
    assert set(preference.METHODS) == {"dpo", "grpo", "ppo"}


def test_the_cache_is_split_by_heads_and_no_further():
    *_, eight, sixteen = published.cache_by_heads()
    assert eight[2] == sixteen[2] and eight[1] != sixteen[1]


def test_a_layer_keeps_no_less_with_adapters_beside_all():
    full, two, every = published.kept_by_layer().values()
    assert two < full <= every
