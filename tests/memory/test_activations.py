"""Activations: the constants of the papers derived from named tensors, and laws of splitting and
recomputing.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import activations, inference
from mathlib.specs import Experts, Latent, Layout, Model

shapes = st.builds(
    lambda d, a, s: Model("any", layers=4, width=a * d, heads=a, vocab=1000, context=s),
    st.sampled_from([4, 8, 64]),
    st.sampled_from([8, 16, 24]),
    st.integers(1, 4096),
)
micro, splits = st.integers(1, 16), st.sampled_from([1, 2, 4, 8])
RECOMPUTE = ("full", "selective", "none")


def named(parts: object) -> dict[str, float]:
    return {name: amount for group in parts.values() for name, amount in group.items()}  # type: ignore[attr-defined]


EVERY = Model(
    "every tensor",
    layers=2,
    width=64,
    heads=4,
    kv_heads=2,
    vocab=101,
    context=10,
    query_key_norm="head",
)
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
    assert halves.total == activations.layer(EVERY, **THREE).total / 2


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
    """In fp32; what the next product reads is cast, after the dropout if there is one."""
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


def test_what_is_taken_unless_said() -> None:
    plain = activations.Saving()
    assert plain == activations.Saving("standard", True, 2, False, False, False)
    assert plain.words == "standard attention, dropout"
    cast = activations.Saving("flash", dropout=False, autocast=True)
    assert cast.words == "flash attention, no dropout, autocast"
    assert (plain.stream_bytes, cast.stream_bytes) == (2, 4)
    for name in ("dropout", "fused_gate", "small_tensors", "autocast", "sequence_parallel"):
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


def test_every_tensor_of_both_ends_and_its_share_by_hand() -> None:
    """Two tensor ranks pad 101 rows to 102 and hold half; 2 micro-batches wait on stage 0 of 2."""
    layout = Layout(pipeline=2, tensor=2, micro_batch=3, micro_batches=4)
    model = EVERY.but(embedding_norm=True)
    first, last = (activations.stage(model, layout, stage=i, small_tensors=True) for i in range(2))
    assert dict(first["embedding"].items()) == {  # type: ignore[union-attr]
        "its norm input": 2 * 2 * 30 * 64,
        "its norm statistics": 2 * 2 * 4 * 30,
        "dropout mask": 2 * 30 * 64,
        "token numbers": 2 * 8 * 30,
    }
    head = {
        "final norm input": 2 * 30 * 64,
        "final norm statistics": 2 * 4 * 30,
        "input": 2 * 30 * 64,
        "probabilities": 4 * 30 * 102 / 2,
        "targets": 8 * 30,
        "number of targets": 4,
    }
    assert dict(last["head"].items()) == head  # type: ignore[union-attr]
    bare = activations.stage(
        model.but(final_norm=False), layout, stage=1, logits_bytes=2, bytes_per_element=4
    )
    assert dict(bare["head"].items()) == {  # type: ignore[union-attr]
        "input": 4 * 30 * 64,
        "probabilities": 2 * 30 * 102 / 2,
    }


def test_gpipe_holds_every_micro_batch_at_both_ends_by_hand() -> None:
    layout = Layout(pipeline=2, micro_batch=3, micro_batches=4)
    first, last = (activations.stage(EVERY, layout, stage=i, schedule="gpipe") for i in range(2))
    assert first.amount("embedding") == 4 * 30 * 64
    assert last.amount("head") == 4 * (2 * 2 * 30 * 64 + 4 * 30 * 101)
    assert activations.in_flight(pipeline=4, micro_batches=3) == 3
    assert activations.in_flight(pipeline=4, micro_batches=8, stage=3) == 1
    with pytest.raises(InputError, match="stage = 4: expected 0 to 3"):
        activations.in_flight(pipeline=4, micro_batches=8, stage=4)


def test_a_tensor_of_the_stream_and_a_rule_of_thumb() -> None:
    assert activations.hidden_state("gpt2") == 2 * 1024 * 768
    assert activations.hidden_state("gpt2", micro_batch=3, tokens=10) == 2 * 3 * 10 * 768
    assert activations.hidden_state("gpt2", bytes_per_element=4) == 4 * 1024 * 768
    rule = {"layers": 5, "width": 7, "tokens": 11}
    assert activations.zero_rule(**rule) == 12 * 2 * 5 * 7 * 11
    more = activations.zero_rule(**rule, micro_batch=3, elements=10, bytes_per_element=4)
    assert more == 10 * 4 * 3 * 5 * 7 * 11


@given(shapes, micro, splits)
def test_korthikanti_table_2(model: Model, b: int, t: int) -> None:
    s, h, a = model.context, model.width, model.heads
    sbh, scores = s * b * h, 5 * a * s / h

    def total(**how: object) -> float:
        return activations.layer(model, micro_batch=b, tensor=t, **how).total / sbh  # type: ignore[arg-type]

    assert total() == pytest.approx(10 + 24 / t + scores / t)
    assert total(sequence_parallel=True) == pytest.approx((34 + scores) / t)
    assert total(recompute="selective") == pytest.approx(10 + 24 / t)
    assert total(recompute="selective", sequence_parallel=True) == pytest.approx(34 / t)
    assert total(recompute="full") == pytest.approx(2)


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


@given(shapes, micro, st.sampled_from([1, 2, 4]))
def test_masks_are_a_byte_whatever_the_width_of_the_rest(model: Model, b: int, e: int) -> None:
    """(16 e + 2) s b h + (2 e + 1) a s^2 b; multiplying 34 by the width again counts the masks and
    the halves twice.
    """
    s, h, a = model.context, model.width, model.heads
    expected = (16 * e + 2) * s * b * h + (2 * e + 1) * a * s * s * b
    assert activations.layer(model, micro_batch=b, bytes_per_element=e).total == pytest.approx(
        expected
    )
    plain = activations.layer(model, micro_batch=b, bytes_per_element=e, dropout=False).total
    assert plain == pytest.approx(16 * e * s * b * h + e * a * s * s * b)


@given(shapes, micro, splits, st.booleans(), st.sampled_from(activations.ATTENTION))
def test_recomputing_more_never_keeps_more(
    model: Model, b: int, t: int, sp: bool, kind: str
) -> None:
    full, selective, none = (
        activations.layer(
            model, micro_batch=b, tensor=t, sequence_parallel=sp, recompute=r, attention=kind
        ).total
        for r in RECOMPUTE
    )
    assert full <= selective <= none


@given(
    shapes,
    micro,
    splits,
    st.sampled_from(RECOMPUTE),
    st.sampled_from(activations.ATTENTION),
    st.booleans(),
)
def test_tensor_and_sequence_parallelism_divide_exactly(
    model: Model, b: int, t: int, r: str, kind: str, small: bool
) -> None:
    def total(**how: object) -> float:
        return activations.layer(
            model, micro_batch=b, recompute=r, attention=kind, small_tensors=small, **how
        ).total  # type: ignore[arg-type]

    one = total()
    assert total(tensor=t, sequence_parallel=True) == pytest.approx(one / t)
    assert one / t * (1 - 1e-12) <= total(tensor=t) <= one * (1 + 1e-12)


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


def executed(p: int, m: int, v: int) -> list[tuple[float, list[int]]]:
    """Every stage's peak of micro-batches alive, all chunks together and each chunk's own.

    Megatron-LM's order, walked action by action: p micro-batches through a chunk, then the next
    chunk; backward meets the chunks in reverse.
    """
    order = [i // p % v for i in range(m * v)] if v > 1 else [0] * m
    peaks = []
    for rank in range(p):
        warm_up = min((p - rank - 1) * 2 + (v - 1) * p if v > 1 else p - rank - 1, m * v)
        actions = [+1] * warm_up + [+1, -1] * (m * v - warm_up) + [-1] * warm_up
        chunks = {+1: iter(order), -1: iter([v - 1 - chunk for chunk in order])}
        alive, most, together = [0] * v, [0] * v, 0
        for action in actions:
            chunk = next(chunks[action])
            alive[chunk] += action
            assert alive[chunk] >= 0, "no backward before its forward"
            most[chunk] = max(most[chunk], alive[chunk])
            together = max(together, sum(alive))
        assert not any(alive)
        peaks.append((together / v, most))
    return peaks


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 5), st.integers(0, 11))
def test_in_flight_is_the_schedule_walked(p: int, rounds: int, v: int, extra: int) -> None:
    m = p * rounds if v > 1 else p * rounds + extra
    if p == 1 and v > 1:
        return
    said = [activations.in_flight(pipeline=p, micro_batches=m, chunks=v, stage=i) for i in range(p)]
    walked = executed(p, m, v)
    assert said == [together for together, _ in walked]
    first, last = activations.ends_in_flight(pipeline=p, micro_batches=m, chunks=v)
    assert (first, last) == (walked[0][1][0], walked[-1][1][-1])
    assert activations.in_flight(pipeline=p, micro_batches=m, schedule="gpipe") == m


@pytest.mark.parametrize(
    ("p", "m", "v", "held"),
    [
        (4, 8, 1, 4),
        (4, 8, 2, 5.5),
        (4, 8, 4, 4.75),
        (8, 32, 1, 8),
        (8, 32, 2, 11.5),
        (8, 32, 4, 9.75),
        (4, 4, 2, 4),
        (8, 3, 1, 3),
        (8, 8, 4, 8),
    ],
)
def test_first_stage_of_known_schedules(p: int, m: int, v: int, held: float) -> None:
    assert activations.in_flight(pipeline=p, micro_batches=m, chunks=v) == held


@given(shapes, micro, st.sampled_from([1, 2, 4]), splits, st.booleans(), st.sampled_from(RECOMPUTE))
def test_a_stage_is_its_layers_in_flight_and_its_ends(
    model: Model, b: int, p: int, t: int, sp: bool, r: str
) -> None:
    layout = Layout(
        pipeline=p, tensor=t, sequence_parallel=sp, micro_batch=b, micro_batches=8, recompute=r
    )
    one = activations.layer(model, micro_batch=b, tensor=t, sequence_parallel=sp, recompute=r).total
    for i in range(p):
        stage = activations.stage(model, layout, stage=i)
        assert stage.amount("layers") == pytest.approx(one * 4 / p * (p - i))
        assert ("embedding" in stage, "head" in stage) == (i == 0, i == p - 1)
    sbh, split = b * model.context * model.width, t if sp else 1
    assert activations.stage(model, layout).amount("embedding") == pytest.approx(sbh * p / split)
    head = activations.stage(model, layout, stage=p - 1).amount("head")
    assert head == pytest.approx(4 * sbh / split + 4 * b * model.context * 1000 / t)


def test_the_ends_belong_to_one_chunk() -> None:
    """8 stages of 4 chunks: the last stage's head serves one micro-batch, the first stage's
    embedding 16.
    """
    model, layout = (
        specs.find_model("llama3-8b"),
        Layout(pipeline=8, chunks=4, micro_batches=16),
    )
    s, h, V = model.context, model.width, model.padded_vocab
    last = activations.stage(model, layout, stage=7)
    assert last.amount("head") == 2 * 2 * s * h + 4 * s * V
    first = activations.stage(model, layout, dropout=True)
    assert first.amount("embedding") == 16 * s * h
    assert activations.ends_in_flight(pipeline=8, micro_batches=16, chunks=4, schedule="gpipe") == (
        16,
        16,
    )


def test_a_norm_behind_the_embedding_keeps_its_input() -> None:
    layout, n = Layout(micro_batch=2), 2 * 2048
    bloom = specs.find_model("bloom-560m")
    kept = activations.stage(bloom, layout, small_tensors=True)["embedding"]
    assert kept["its norm input"] == 2 * n * bloom.width
    assert kept["its norm statistics"] == 2 * 4 * n
    bare = bloom.but(embedding_norm=False, dropout=False)
    assert "embedding" not in activations.stage(bare, layout)


def test_dropout_and_kernel_are_the_models_own_and_the_title_says_so() -> None:
    llama, gpt2 = activations.stage("llama2-7b", Layout()), activations.stage("gpt2", Layout())
    assert "flash attention, no dropout" in llama.title
    assert "standard attention, dropout" in gpt2.title
    said = activations.stage("llama2-7b", Layout(), attention="standard", dropout=True)
    assert said.amount("layers") > 3 * llama.amount("layers")
    assert "standard attention, dropout" in activations.layer("gpt2").title


def test_the_vocabulary_is_padded_to_the_tensor_degree() -> None:
    model = Model("odd", layers=1, width=64, heads=8, vocab=1001, context=16)
    assert [activations.vocabulary(model, t) for t in (1, 2, 8)] == [1001, 1002, 1008]
    head = activations.stage(model, Layout(tensor=8))["head"]
    assert head["probabilities"] == 4 * 16 * 1008 / 8


def test_autocast_keeps_an_fp32_stream_and_softmax() -> None:
    model = Model("any", layers=1, width=64, heads=4, vocab=100, context=16, dropout=False)
    half, cast = (named(activations.layer(model, autocast=c)) for c in (False, True))
    twice = {"1. norm input": 2, "2. norm input": 2, "softmax": 2}
    assert {name: cast[name] / half[name] for name in half if cast[name] != half[name]} == twice
    assert set(cast) - set(half) == {"softmax, cast"}
    full = activations.layer(model, autocast=True, recompute="full")
    assert full.total == 4 * 16 * 64


def test_gpipe_holds_every_micro_batch() -> None:
    layout = Layout(pipeline=4, micro_batches=16)
    ours, gpipe = (
        activations.stage("gpt2", layout, schedule=s, stage=1).total for s in activations.SCHEDULES
    )
    assert gpipe == pytest.approx(ours * 16 / 3)


@given(st.integers(1, 5000), st.integers(1, 64), st.sampled_from([0.5, 1, 2, 4]))
def test_the_cache_is_keys_and_values_of_every_layer(tokens: int, sequences: int, e: float) -> None:
    model = specs.find_model("llama3-8b")
    cache = inference.kv_cache(model, tokens=tokens, sequences=sequences, bytes_per_element=e)
    assert cache["keys"] == cache["values"]
    assert cache.total == 2 * 32 * 8 * 128 * e * tokens * sequences
    by_degree = [inference.kv_cache(model, tokens=tokens, tensor=t).total for t in (1, 8, 16)]
    assert by_degree[1] == by_degree[2] == by_degree[0] / 8, (
        "8 heads go to 8 devices, and no head is split"
    )


def test_small_tensors_are_small() -> None:
    for kind in activations.ATTENTION:
        bare, all_of_it = (
            activations.stage("gpt2-xl", Layout(), attention=kind, small_tensors=small).total
            for small in (False, True)
        )
        assert 0 < all_of_it - bare < 0.01 * bare


@pytest.mark.parametrize(
    ("call", "named_argument"),
    [
        (lambda: activations.layer("gpt2", micro_batch=0), "micro_batch = 0"),
        (lambda: activations.layer("gpt2", tokens=-1), "tokens = -1"),
        (lambda: activations.layer("gpt2", tensor=5), "tensor = 5: does not divide heads = 12"),
        (lambda: activations.layer("gpt2", tensor=8, recompute="full"), "tensor = 8: does not"),
        (lambda: activations.layer("gpt2", recompute="some"), "recompute = 'some'"),
        (lambda: activations.layer("gpt2", attention="fast"), "attention = 'fast'"),
        (lambda: activations.layer("gpt2", bytes_per_element=0), "bytes_per_element = 0"),
        (
            lambda: activations.layer("gpt2", bytes_per_element=float("nan")),
            "bytes_per_element = nan",
        ),
        (lambda: activations.layer("gpt2", index=12), "index = 12: expected 0 to 11"),
        (lambda: activations.layer("gpt3"), "model = 'gpt3': did you mean"),
        (
            lambda: activations.stage("gpt2", Layout(pipeline=2), stage=2),
            "stage = 2: expected 0 to 1",
        ),
        (lambda: activations.stage("gpt2", Layout(), logits_bytes=-4), "logits_bytes = -4"),
        (
            lambda: activations.in_flight(pipeline=4, micro_batches=6, chunks=2),
            "does not divide micro_batches = 6",
        ),
        (
            lambda: activations.in_flight(pipeline=4, micro_batches=8, schedule="zero-bubble"),
            "schedule = 'zero-bubble'",
        ),
        (lambda: inference.kv_cache("gpt2", tokens=1.5), "tokens = 1.5"),
        (lambda: activations.zero_rule(layers=True, width=1, tokens=1), "layers = True"),
    ],
)
def test_bad_input_names_the_argument(call: object, named_argument: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named_argument in str(refused.value)
