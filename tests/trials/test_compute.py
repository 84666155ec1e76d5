"""What 6PD leaves out, as the chapter and C01 print it."""

import pytest

from mathlib import specs
from mathlib.compute import flops
from mathlib.trials import compute


@pytest.mark.parametrize(
    ("name", "tokens", "over", "causal"),
    [("gpt2", 1024, 1.144, 1.069), ("qwen3-30b-a3b", 4096, 1.387, 1.147)],
)
def test_a_counted_step_is_over_the_rule_by_attention(name, tokens, over, causal):
    rule = compute.count(specs.find_model(name).but(context=tokens))
    assert rule.counted == flops.per_token(name, tokens=tokens)
    assert [round(x, 3) for x in (rule.over, rule.over_causal)] == [over, causal]
    adds = rule.attention / (rule.forward - rule.attention)
    assert rule.over_met == pytest.approx(1 + adds) and rule.backward == 2 * rule.forward
    doubled = rule.over_met - 1, tokens / compute.doubles_at(name)
    assert doubled[0] == pytest.approx(doubled[1])


def test_one_number_at_a_time_is_changed():
    lines = compute.swept()
    assert {round(dict(line)[1], 3) for line in lines.values()} == {1.674}
    ends = {name: line[-1][1] / line[2][1] for name, line in lines.items()}
    assert ends["sequence length"] > 2.9 and ends["vocabulary"] > 5
    assert ends["width"] < ends["layers"] < 1, "a wider model heals both errors, a deeper one one"


def test_a_window_keeps_a_model_near_the_rule():
    lines = compute.at_lengths(("gemma3-27b", "llama3-8b", "qwen3-30b-a3b"), [4096, 131072])
    last = [round(line[-1][1], 1) for line in lines.values()]
    assert last == [1.2, 3.1, 8.6] and lines["Llama 3 8B"][0] == (4096, pytest.approx(1.0014, 1e-4))


def test_attention_doubles_the_six_where_the_chapter_says():
    found = [compute.doubles_at(name) for name in ("qwen3-30b-a3b", "llama3-8b", "deepseek-v3")]
    assert [round(x) for x in found] == [7735, 28628, 14658]


def test_large_runs_by_one_measure():
    mfus = [run.mfu for run in compute.large_runs()]
    assert [round(end(mfus), 3) for end in (min, max)] == [0.106, 0.533]
    fleets = {(run.title, run.device): run for run in compute.smallest_fleets()}
    assert len(fleets) == 12 and fleets["Llama 3 405B", "H100"].devices == 8192
    assert compute.large_run("GPT-3 175B, V100") is None, "nobody says which FLOP it counts"


def test_the_shortcut_misses_small_models_most():
    missing = list(compute.shortcut_misses().values())
    assert missing == sorted(missing, reverse=True)
    assert [round(100 * x) for x in (missing[0], missing[-1])] == [12, 1]
