"""The tensors that a layer saves, by name and by hand; what flash attention and experts change."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from architectures import EVERY
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from mathlib.checks import InputError
from mathlib.memory import activations
from mathlib.memory.saved_tensors import Saving
from mathlib.plan.room import find_keeps
from mathlib.specs import Experts, Latent, Layout, Model


def named(parts: object) -> dict[str, float]:
    return {name: amount for group in parts.values() for name, amount in group.items()}  # type: ignore[attr-defined]


THREE = {"micro_batch": 3, "small_tensors": True}  # 30 tokens, 2 bytes an element


def test_every_tensor_of_a_layer_and_its_share_by_hand() -> None:
    """Two tensor ranks halve what lies between a split matrix and the next, and nothing else."""
    kept = activations.layer(EVERY, tensor=2, **THREE)
    norm = {"norm input": 2 * 30 * 64, "norm statistics": 2 * 4 * 30}  # mean and 1/deviation
    attention = {
        "input": 2 * 30 * 64,
        "before query and key norm": 2 * 30 * (4 + 2) * 16 / 2,
        "queries": 2 * 30 * 64 / 2,
        "keys": 2 * 30 * 32 / 2,
        "values": 2 * 30 * 32 / 2,
        "softmax": 2 * 4 * 10 * 10 * 3 / 2,
        "softmax mask": 4 * 10 * 10 * 3 / 2,
        "softmax after dropout": 2 * 4 * 10 * 10 * 3 / 2,
        "causal mask": 10 * 10,  # one for all heads and sequences
        "projection input": 2 * 30 * 64 / 2,
        "output mask": 30 * 64,
    }
    mlp = {
        "input": 2 * 30 * 64,
        "activation input": 2 * 30 * 256 / 2,
        "second input": 2 * 30 * 256 / 2,
        "output mask": 30 * 64,
    }
    assert {group: dict(kept[group].items()) for group in kept} == {  # type: ignore[union-attr]
        "norms": {f"{i}. {name}": size for i in (1, 2) for name, size in norm.items()},
        "attention": attention,
        "mlp": mlp,
    }
    halves = activations.layer(EVERY, tensor=2, sequence_parallel=True, **THREE)
    mask = 10 * 10  # the same on both ranks: test_sequence_parallel counts it
    assert halves.total == (activations.layer(EVERY, **THREE).total + mask) / 2


def test_what_selective_and_flash_leave_of_the_core() -> None:
    none, selective, flash, both = (
        named(activations.layer(EVERY, recompute=r, attention=kind, tensor=2, **THREE))
        for kind in ("standard", "flash")
        for r in ("none", "selective")
    )
    core = {"softmax", "softmax mask", "softmax after dropout", "causal mask"}
    assert set(none) - set(selective) == set(none) - set(both) == core
    assert set(flash) - set(none) == {"log-sum-exp"}
    assert flash["log-sum-exp"] == 4 * 4 * 30 / 2, "in fp32, a number a head and token"


def test_an_rms_norm_has_no_mean_to_keep() -> None:
    kept = activations.layer(EVERY.but(norm="rmsnorm"), **THREE)["norms"]
    assert kept["1. norm statistics"] == kept["2. norm statistics"] == 4 * 30  # type: ignore[index]


def test_softmax_under_autocast_by_hand() -> None:
    """In fp32; what the next matmul reads is cast, after the dropout if there is one."""
    scores = 4 * 10 * 10 * 3
    for dropout, wanted in (
        (True, {"softmax": 4, "softmax mask": 1, "softmax after dropout": 2}),
        (False, {"softmax": 4, "softmax, cast": 2}),
    ):
        how = {"dropout": dropout, "autocast": True, "micro_batch": 3}
        kept = activations.layer(EVERY, **how)["attention"]
        found = {n: size / scores for n, size in kept.items() if "softmax" in n}  # type: ignore[union-attr]
        assert found == wanted


def test_the_core_under_autocast_is_split_and_dropped_as_a_whole() -> None:
    how = {"dropout": False, "autocast": True, "micro_batch": 3, "tensor": 2}
    none, selective = (
        named(activations.layer(EVERY, recompute=r, **how)) for r in ("none", "selective")
    )
    half = 4 * 10 * 10 * 3 / 2
    dropped = {name: none[name] for name in set(none) - set(selective)}
    assert dropped == {"softmax": 4 * half, "softmax, cast": 2 * half}
    sinks = named(activations.layer(EVERY.but(attention_sinks=True), **how))
    assert sinks["softmax"] == 4 * (half + 4 * 10 * 3 / 2), "a column more in every sequence"


def test_full_recomputation_keeps_one_tensor() -> None:
    kept = activations.layer(EVERY, recompute="full", tensor=2, **THREE)["kept for recomputation"]
    assert dict(kept.items()) == {"layer input": 2 * 30 * 64}  # type: ignore[union-attr]


GATED = Model(
    *("gated",),
    **{"layers": 1, "width": 64, "heads": 4, "kv_heads": 2, "ffn_width": 96, "vocab": 100},
    **{"context": 16, "gated": True, "norm": "rmsnorm"},
)
PRODUCTS = ("wq", "wk", "wv", "wo", "w1", "w3", "w2")


def cached(model: Model) -> int:
    """Bytes of what PyTorch keeps of a layer by torchtitan's policy: results of attention and of
    every second matmul.
    """
    h, k, f, s = model.width, model.kv_heads * model.head_dim, model.ffn_width, model.context
    shapes = [(h, h), (k, h), (k, h), (h, h), (f, h), (f, h), (h, f)]
    w = {name: torch.randn(shape) for name, shape in zip(PRODUCTS, shapes, strict=True)}
    seen, kept = 0, 0

    def policy(ctx: SelectiveCheckpointContext, op: object, *args: object) -> CheckpointPolicy:
        nonlocal seen, kept
        matmul, attention = op == torch.ops.aten.mm.default, "scaled_dot_product" in str(op)
        seen += matmul
        if not (attention or (matmul and seen % 2)):
            return CheckpointPolicy.PREFER_RECOMPUTE
        kept += (ctx.op_output[0] if attention else ctx.op_output).nbytes
        return CheckpointPolicy.MUST_SAVE

    def block(x: torch.Tensor) -> torch.Tensor:
        y = F.rms_norm(x, (h,))
        q, keys, v = (
            (y @ w[name].T).view(1, s, -1, model.head_dim).transpose(1, 2) for name in PRODUCTS[:3]
        )
        out = F.scaled_dot_product_attention(q, keys, v, is_causal=True, enable_gqa=True)
        x = x + out.transpose(1, 2).reshape(s, h) @ w["wo"].T
        y = F.rms_norm(x, (h,))
        return x + (F.silu(y @ w["w1"].T) * (y @ w["w3"].T)) @ w["w2"].T

    x = torch.randn(s, h, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, policy)
    checkpoint(block, x, use_reentrant=False, context_fn=contexts)
    return kept


def test_selective_by_operation_keeps_what_torch_caches() -> None:
    """And the layer's input; not counted are the logarithms that attention keeps."""
    named = find_keeps("fsdp-eager").selective
    how = Saving("flash", dropout=False, bytes_per_element=4, selective=named)
    kept = activations.kept_by(GATED, how, recompute="selective")
    assert kept == 4 * 16 * 64 + cached(GATED)
    compiled = replace(how, selective=find_keeps("fsdp").selective)  # which drops what none reads
    rest = activations.kept_by(GATED, compiled, recompute="selective")
    assert kept - rest == 4 * 16 * 64
    assert rest < activations.kept_by(GATED, how)


def test_inputs_of_linear_layers_in_8_bits() -> None:
    """A byte less of what a linear layer alone reads, one more of what attention keeps as well."""
    model = Model("moe", layers=1, width=64, heads=4, vocab=100, context=16, gated=True)
    sparse = model.but(name="sparse", experts=Experts(8, 2, 96, shared=1))
    n, h, f = 16, 64, model.ffn_width
    for one, less in ((model, n * (h - h + h + f)), (sparse, n * (h - h + 2 * h + 3 * 96))):
        wide, narrow = (Saving("flash", dropout=False, rounded=b) for b in (0, 1))
        assert activations.kept_by(one, wide) - activations.kept_by(one, narrow) == less
    full = {"recompute": "full"}
    assert activations.kept_by(model, wide, **full) == activations.kept_by(model, narrow, **full)
    with pytest.raises(InputError, match="rounded = -1"):
        Saving(rounded=-1)
    with pytest.raises(InputError, match="selective = 'queries'"):
        Saving(selective="queries")  # type: ignore[arg-type]


def test_what_is_taken_unless_said() -> None:
    plain = activations.Saving()
    assert plain == activations.Saving("standard", True, 2, False, True, False, False)
    assert plain.words == "standard attention, dropout"
    cast = activations.Saving("flash", dropout=False, autocast=True)
    assert cast.words == "flash attention, no dropout, autocast"
    assert (plain.stream_bytes, cast.stream_bytes) == (2, 4)
    flags = ("dropout", "fused_gate", "expert_results", "small_tensors", "autocast")
    for name in (*flags, "sequence_parallel"):
        with pytest.raises(InputError, match=f"{name} = 2"):
            activations.layer("gpt2", **{name: 2})


def test_every_tensor_of_a_layer_with_experts_and_its_share_by_hand() -> None:
    model = EVERY.but(experts=Experts(8, 2, 96, shared=1, shared_gate=True), gated=True)
    kept = activations.layer(model, tensor=2, **THREE)["mlp"]
    hidden = 2 * 30 * 96 * (2 + 1) / 2
    assert dict(kept.items()) == {  # type: ignore[union-attr]
        "input": 2 * 30 * 64,
        "router probabilities": 4 * 30 * 8,
        "copies to experts": 2 * 30 * 64 * 2,
        **dict.fromkeys(("gate", "up", "second input", "activated gate"), hidden),
        "outputs of experts": 2 * 30 * 64 * 2,
        "output of shared experts": 2 * 30 * 64,
        "shared gate": 2 * 30,
        "output mask": 30 * 64,
    }


def test_latents_are_whole_on_every_tensor_rank_and_heads_are_not() -> None:
    latent = Latent(kv_rank=32, rope_dim=8, nope_dim=16, value_dim=24, query_rank=48)
    model = EVERY.but(kv_heads=4, query_key_norm="", latent=latent)
    kept = named(activations.layer(model, tensor=2, **THREE))
    assert kept["query latent"] == 2 * 2 * 30 * 48, "before and after its norm"
    assert kept["key-value latent"] == 2 * 2 * 30 * 32
    assert kept["queries"] == kept["keys"] == 2 * 30 * 4 * (16 + 8) / 2
    assert kept["values"] == kept["projection input"] == 2 * 30 * 4 * 24 / 2
    direct = activations.layer(model.but(latent=replace(latent, query_rank=0)), **THREE)
    assert "query latent" not in named(direct)


def test_34_is_the_sum_of_its_tensors() -> None:
    model = Model("plain", layers=1, width=64, heads=4, vocab=100, context=16)
    kept = activations.layer(model, recompute="selective")
    in_sbh = {name: amount / (16 * 64) for name, amount in named(kept).items()}
    assert [kept.amount(group) / (16 * 64) for group in ("norms", "attention", "mlp")] == [
        4,
        11,
        19,
    ]
    assert in_sbh["activation input"] == in_sbh["second input"] == 8
    assert (
        in_sbh["queries"] == in_sbh["keys"] == in_sbh["values"] == in_sbh["projection input"] == 2
    )
    scores = {
        name: amount / (4 * 16 * 16) for name, amount in named(activations.layer(model)).items()
    }
    assert (scores["softmax"], scores["softmax mask"], scores["softmax after dropout"]) == (2, 1, 2)


def test_with_flash_attention_selective_saves_next_to_nothing() -> None:
    for name in ("korthikanti-22b", "llama3-8b"):
        none, selective = (
            activations.layer(name, attention="flash", recompute=r, small_tensors=True).total
            for r in ("none", "selective")
        )
        assert 0 < (none - selective) / none < 0.002, (
            "the log-sum-exp: one number a query, not one a pair"
        )
    plain = activations.layer("korthikanti-22b").total
    assert activations.layer("korthikanti-22b", attention="flash").total < plain / 3


def test_a_gate_keeps_three_tensors_or_four() -> None:
    model = Model(
        "gated", layers=1, width=64, heads=4, vocab=100, context=16, gated=True, ffn_width=160
    )
    for fused, kept in ((True, 3), (False, 4)):
        mlp = activations.layer(model, dropout=False, fused_gate=fused).amount("mlp")
        assert mlp == 2 * 16 * 64 + kept * 2 * 16 * 160


def test_grouped_heads_keep_smaller_keys_and_a_device_at_least_one() -> None:
    model = Model("grouped", layers=1, width=64, heads=8, kv_heads=2, vocab=100, context=16)
    whole = named(activations.layer(model))
    assert whole["keys"] == whole["values"] == whole["queries"] / 4 == 2 * 16 * 16
    assert named(activations.layer(model, tensor=2))["keys"] == whole["keys"] / 2
    assert named(activations.layer(model, tensor=8))["keys"] == whole["keys"] / 2, (
        "8 devices, 2 heads: one each"
    )


def test_one_norm_a_layer_is_read_by_both_halves() -> None:
    two = Model("two", layers=1, width=64, heads=8, vocab=100, context=16)
    saved = activations.layer(two).total - activations.layer(two.but(block_norms=1)).total
    assert saved == 2 * (2 * 16 * 64), "the second norm's input and the MLP's own"


def test_experts_multiply_what_a_token_keeps() -> None:
    dense = Model("dense", layers=2, width=64, heads=4, vocab=100, context=16, ffn_width=96)
    moe = dense.but(experts=Experts(routed=8, active=2, width=96, dense_layers=1))
    assert activations.layer(moe, index=0).total == activations.layer(dense).total
    first, second = named(activations.layer(dense)), named(activations.layer(moe, index=1))
    assert second["activation input"] == 2 * first["activation input"]
    stage = activations.stage(moe, Layout())
    assert stage.amount("layers") == activations.layer(moe).total
    assert stage.amount("expert layers") == activations.layer(moe, index=1).total


def test_what_experts_keep_by_name() -> None:
    model = Model("moe", layers=1, width=64, heads=4, vocab=100, context=16)
    kept = activations.layer(model.but(experts=Experts(8, 2, 96, shared=1)), dropout=False)["mlp"]
    n, e = 16, 2
    assert dict(kept.items()) == {  # type: ignore[union-attr]
        "input": e * n * 64,
        "router probabilities": 4 * n * 8,
        "copies to experts": e * n * 64 * 2,
        "activation input": e * n * 96 * 3,
        "second input": e * n * 96 * 3,
        "outputs of experts": e * n * 64 * 2,
    }
    weighted_inside = activations.layer(
        model.but(experts=Experts(8, 2, 96, shared=1)), dropout=False, expert_results=False
    )["mlp"]
    assert weighted_inside.total == kept.total - e * n * 64 * 2  # type: ignore[union-attr]


def test_every_second_layer_has_experts() -> None:
    model = Model("alternating", layers=8, width=64, heads=4, vocab=100, context=16)
    few = model.but(experts=Experts(routed=8, active=2, width=96, every=2))
    dense, sparse = (activations.layer(few, index=i) for i in (0, 1))
    assert dense.total == activations.layer(model).total != sparse.total
    for chunks in (1, 2):
        layout = Layout(pipeline=2, chunks=chunks, micro_batches=2)
        flying = activations.in_flight(pipeline=2, micro_batches=2, chunks=chunks)
        stage = activations.stage(few, layout)
        assert stage.amount("layers") == pytest.approx(2 * flying * dense.total)
        assert stage.amount("expert layers") == pytest.approx(2 * flying * sparse.total)


def test_a_gate_on_the_shared_experts_keeps_what_it_scales() -> None:
    model = Model("gate", layers=2, width=64, heads=4, vocab=100, context=16)
    bare, gate = (
        model.but(experts=Experts(8, 2, 96, shared=3, dense_layers=1, shared_gate=has))
        for has in (False, True)
    )
    for small, more in ((False, 2 * 3 * 16 * 64), (True, 2 * 3 * 16 * (64 + 1))):
        kept = (
            activations.layer(m, index=1, micro_batch=3, small_tensors=small) for m in (bare, gate)
        )
        assert -next(kept).total + next(kept).total == more
    assert activations.layer(gate).total == activations.layer(bare).total


def test_sinks_are_a_column_of_the_softmax() -> None:
    model = Model("plain", layers=1, width=64, heads=4, vocab=100, context=16)
    for how, more in (
        ({}, 2 * 4 * 16),
        ({"autocast": True}, 4 * 4 * 16),
        ({"attention": "flash"}, 0),
        ({"recompute": "selective"}, 0),
    ):
        bare, sinks = (
            activations.layer(m, **how) for m in (model, model.but(attention_sinks=True))
        )
        assert sinks.total - bare.total == more, how


def test_latent_attention_keeps_its_latents() -> None:
    latent = Latent(kv_rank=32, rope_dim=8, nope_dim=16, value_dim=16, query_rank=48)
    kept = named(
        activations.layer(
            Model("mla", layers=1, width=64, heads=4, vocab=100, context=10, latent=latent)
        )
    )
    assert kept["query latent"] == 2 * 2 * 10 * 48 and kept["key-value latent"] == 2 * 2 * 10 * 32
    assert kept["queries"] == kept["keys"] == 2 * 10 * 4 * 24 and kept["values"] == 2 * 10 * 4 * 16


def test_autocast_keeps_an_fp32_stream_and_softmax() -> None:
    model = Model("any", layers=1, width=64, heads=4, vocab=100, context=16, dropout=False)
    half, cast = (named(activations.layer(model, autocast=c)) for c in (False, True))
    twice = {"1. norm input": 2, "2. norm input": 2, "softmax": 2}
    assert {name: cast[name] / half[name] for name in half if cast[name] != half[name]} == twice
    assert set(cast) - set(half) == {"softmax, cast"}
    full = activations.layer(model, autocast=True, recompute="full")
    assert full.total == 4 * 16 * 64
