"""The FLOP formulas against counted runs: equal to the last digit, for every shape, kernel and
recomputation.
"""

import pytest

from mathlib import specs
from mathlib.compute import flops, params
from mathlib.from_config import from_config
from mathlib.meters import flop
from mathlib.model import dry_run, gpt, modern

SHAPES = {
    "plain": {},
    "one layer": {"layers": 1},
    "deep": {"layers": 7},
    "wide": {"width": 192, "heads": 6},
    "one head": {"heads": 1},
    "long": {"context": 96},
    "odd sizes": {"layers": 3, "width": 60, "heads": 5, "vocab": 37, "context": 23},
    "narrow MLP": {"ffn_width": 100},
    "untied": {"tied": False},
    "padded": {"vocab": 50, "padded_vocab": 64},
    "no biases": {"qkv_bias": False, "output_bias": False, "mlp_bias": False},
}
few_shapes = pytest.mark.parametrize("name", ["odd sizes", "narrow MLP"])


WAYS = [  # attention, what its backward counts, recomputation, whether that stops early
    (*attention, recompute, early_stop)
    for attention in (("plain", 2), ("flash", 2.5))
    for recompute in ("none", "selective", "full")
    for early_stop in (True, False)[: 1 + (recompute != "none")]
]
STEPS = [  # one shape in every way, and every shape in two; the chapter compares more
    (name, *way)
    for i, name in enumerate(SHAPES)
    for way in (WAYS if name == "odd sizes" else WAYS[i % 5 :: 5])
]


@pytest.mark.parametrize(("name", "attention", "backward", "recompute", "early_stop"), STEPS)
def test_every_flop_of_a_step(name, attention, backward, recompute, early_stop):
    model = gpt.small(**SHAPES[name])
    run = dry_run.dry_run if attention == "plain" else _run_flash
    counted = run(model, 3, recompute=recompute, early_stop=early_stop)
    predicted = flops.training(
        model,
        sequences=3,
        attention_backward=backward,
        recompute=recompute,
        early_stop=early_stop,
    )
    assert counted[0] == flop.by_kernel(flops.forward(model, sequences=3))
    behind = flop.by_kernel(predicted["backward"])
    for part, again in flop.by_kernel(predicted["recomputation"]).items():
        behind[part] += again
    assert counted[1] == behind


def _run_flash(model, sequences, recompute, early_stop):
    """Flash attention has no meta kernel of its own on the CPU, so it runs with numbers."""
    import torch

    tokens = torch.zeros(sequences, model.context, dtype=torch.long)
    run = gpt.GPT(model, "flash", recompute)
    return flop.count_flop(lambda: run.loss(tokens, tokens), run, early_stop)


@few_shapes
def test_torch_stops_early_unless_told_otherwise(name):
    """By default half of a selective recomputation is run, and all of full but each MLP's last."""
    model = gpt.small(**SHAPES[name])
    counted, whole = (
        sum(part.total() for part in dry_run.dry_run(model, 2, recompute="full", **how))
        for how in ({}, {"early_stop": False})
    )
    s, h, f, L = model.context, model.width, model.ffn_width, model.layers
    assert whole - counted == 2 * 2 * s * L * h * f
    none = sum(part.total() for part in dry_run.dry_run(model, 2))
    selective = sum(part.total() for part in dry_run.dry_run(model, 2, recompute="selective"))
    assert selective - none == 2 * 2 * L * s * s * h


@pytest.mark.parametrize("name", SHAPES)
def test_every_parameter(name):
    model = gpt.small(**SHAPES[name])
    assert sum(p.numel() for p in gpt.GPT(model).parameters()) == params.count(model).total


@few_shapes
def test_selective_recomputation_costs_4_not_12(name):
    """Korthikanti et al. charge 12 B L s^2 h; a run that does not stop early computes the two
    attention matmuls once more, 4 B L s^2 h.
    """
    model = gpt.small(**SHAPES[name])
    once, again = (
        sum(part.total() for part in dry_run.dry_run(model, 2, recompute=r, early_stop=False))
        for r in ("none", "selective")
    )
    L, h, s = model.layers, model.width, model.context
    assert (
        again - once
        == 4 * 2 * L * s * s * h
        == flops.recomputation(model, sequences=2, recompute="selective").total
    )
    assert flops.recomputation(
        model, sequences=2, recompute="selective", convention="korthikanti"
    ).total == 3 * (again - once)


EXPERTS = specs.Experts(routed=6, active=2, width=24)
LATENT = specs.Latent(kv_rank=12, rope_dim=8, nope_dim=16, value_dim=12, query_rank=20)
MODERN = {
    "gated, grouped, wide heads": {},
    "norms of queries and keys, tied": {"query_key_norm": "head", "tied": True},
    "windows": {"window": specs.Window(6, full_every=3), "block_norms": 4},
    "experts": {"experts": EXPERTS},
    "shared expert": {"experts": specs.Experts(6, 2, 24, shared=1, dense_layers=1)},
    "latent": {"latent": LATENT, "kv_heads": 4},
}


def tiny(**changes):
    shape = {"layers": 3, "width": 48, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn_width": 40}
    shape |= {"vocab": 97, "padded_vocab": 97, "context": 24}
    return specs.find_model("llama3-8b").but(name="tiny", **shape | changes)


def together(parts):
    """A router and a shared expert read the same tensor, so the meter cannot tell whose weight a
    gradient belongs to.
    """
    found = {name: n for name, n in parts.items() if name not in ("router", "shared experts")}
    return found | {"both": sum(parts.values()) - sum(found.values())}


@pytest.mark.parametrize("changes", MODERN.values(), ids=MODERN)
def test_every_flop_of_todays_models_with_real_numbers(changes):
    """However unevenly the router chooses: every token visits as many experts."""
    import torch

    model = tiny(**changes)
    built, tokens = modern.Modern(model), torch.randint(97, (3, model.context))
    counted = flop.count_flop(lambda: built.loss(tokens, tokens), built)
    predicted = [way(model, sequences=3) for way in (flops.forward, flops.backward)]
    for run, formula in zip(counted, predicted, strict=True):
        assert together(run) == together(flop.by_kernel(formula))


@pytest.mark.parametrize("name", ["llama3-70b", "qwen3-8b", "mixtral-8x7b", "gemma3-27b"])
def test_every_flop_of_two_layers_at_full_width(name):
    model = specs.find_model(name).but(layers=2, context=4096)
    forward, backward = dry_run.dry_run_modern(model)
    assert forward == flop.by_kernel(flops.forward(model))
    assert backward == flop.by_kernel(flops.backward(model))


TRANSFORMERS: dict[str, dict] = {
    "llama": {},
    "qwen3": {"head_dim": 16},
    "gemma3_text": {"head_dim": 16, "sliding_window": 8, "_sliding_window_pattern": 2},
    "mixtral": {"num_local_experts": 6, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
    "minimax_m2": {"head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2},
    "glm4_moe": {
        "use_qk_norm": True,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "n_shared_experts": 2,
    },
    "granitemoehybrid": {
        "layer_types": ["full_attention"] * 4,
        "mamba_n_heads": 4,
        "shared_intermediate_size": 112,
        "num_local_experts": 6,
        "position_embedding_type": "rope",
    },
    "deepseek_v3": {
        "num_key_value_heads": 4,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
        "n_group": 2,
        "topk_group": 1,
        "q_lora_rank": 20,
        "kv_lora_rank": 12,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 12,
    },
}


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_every_flop_of_transformers_own_classes(kind):
    """The witness is the program that people run, each kind in small and with real numbers."""
    import torch

    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "intermediate_size": 56, "vocab_size": 97}
    config = transformers.AutoConfig.for_model(kind, **sizes | TRANSFORMERS[kind])
    how = {"attn_implementation": "eager", "experts_implementation": "eager"}
    built = transformers.AutoModelForCausalLM.from_config(config, **how)
    tokens = torch.randint(97, (2, 32))
    counted = flop.count_flop(lambda: built(input_ids=tokens, labels=tokens).loss, built)
    step = flops.training(from_config(config.to_dict()), sequences=2, tokens=32)
    assert counted[0].total() == step["forward"].total
    assert counted[1].total() == step["backward"].total
