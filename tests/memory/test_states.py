"""Laws of model states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.memory import precision, states
from mathlib.specs import Layout, Model

RECIPES = st.sampled_from([name for name in precision.names() if name != "adafactor"])
counts, degrees = st.floats(1, 1e13), st.integers(1, 4096)
SMALL = Model("small", layers=8, width=64, heads=8, vocab=512, context=128)


def test_states_by_hand() -> None:
    """Mixed Adam keeps 2, 2, 4 and 8 bytes; each stage of ZeRO halves one more of them here."""
    for zero, each in enumerate(([2, 2, 4, 8], [2, 2, 2, 4], [2, 1, 2, 4], [1, 1, 2, 4])):
        parts = states.per_parameter(zero=zero, shard=2)
        assert [parts[name] for name in states.STATES] == each
        assert list(states.per_parameter(zero=zero).values()) == [2, 2, 4, 8]
        of_device = states.model_states(600, zero=zero, shard=2, tensor=2, pipeline=3)
        assert [of_device[name] for name in states.STATES] == [100 * n for n in each]
        assert states.largest_model(1e3, zero=zero, shard=2) == 1e3 / sum(each)
    assert states.largest_model(1e3, tensor=2, pipeline=3) == 6e3 / 16
    both = states.per_parameter("mixed-adam-both-gradients", zero=2, shard=4)
    assert dict(both.items()) == {
        "weights": 2,
        "gradients": 6 / 4,
        "master weights": 1,
        "optimizer states": 2,
    }
    copies = states.per_parameter("mixed-adam-gradient-copies", zero=1, shard=4)
    assert [copies[name] for name in states.STATES] == [2, 2, 1, (4 + 8) / 4]
    scaled = states.per_parameter(precision.recipe("adam-8bit", block=64))
    assert scaled["optimizer states"] == 1 + 1 + 2 * 4 / 64
    factored = states.model_states(24, recipe="adafactor", shapes=[(4, 6)])
    assert factored["optimizer states"] == 4 * (4 + 6)
    assert not states.model_states(1).binary and states.model_states(1, binary=True).binary


def test_nothing_is_sharded_unless_said() -> None:
    assert states.per_parameter(shard=4).total == states.per_parameter(zero=3).total == 16
    assert states.model_states(6, shard=4).total == states.model_states(6, zero=3).total == 96
    assert states.largest_model(96, shard=4) == states.largest_model(96, zero=3) == 6


def test_a_type_with_its_own_scales_needs_no_others() -> None:
    with pytest.raises(InputError, match="block = 32: mxfp4 has its own scales, expected 0"):
        states.adapters(1024, 10, base="mxfp4", block=32)


def test_a_checkpoint_by_hand() -> None:
    assert dict(states.checkpoint(10).items()) == {
        "weights": 20,
        "master weights": 40,
        "optimizer states": 80,
    }
    assert dict(states.checkpoint(10, weights_only=True).items()) == {"weights": 20}
    assert list(states.checkpoint(10, recipe="adam-fp32")) == ["weights", "optimizer states"]
    assert states.checkpoint(10, recipe="mixed-adam-gradient-copies").total == 140


def test_adapters_by_hand() -> None:
    """1024 frozen numbers; scales of 32 bits for 64 of them, 8 bits below scales of scales."""
    own = {"weights": 40, "gradients": 40, "optimizer states": 80}
    lora = states.adapters(1024, 10, recipe="adam-fp32")
    assert list(lora) == ["frozen weights", "adapters"] and lora["frozen weights"] == 2048
    assert {name: n for name, n in lora["adapters"].items() if n} == own  # type: ignore[union-attr]
    for how, scales in (
        ({"block": 64}, 1024 / 64 * 4),
        ({"block": 64, "second_block": 8}, 1024 / 64 * 1 + 1024 / 64 / 8 * 4),
        ({"block": 64, "scale": "fp16"}, 1024 / 64 * 2),
        ({"block": 64, "second_block": 8, "scale": "fp16"}, 1024 / 64 * 2 + 1024 / 64 / 8 * 4),
    ):
        qlora = states.adapters(1024, 10, base="nf4", **how)
        assert qlora["frozen weights"] == 512 and qlora["scales"] == scales, how
        assert qlora.amount("adapters") == 160
    with pytest.raises(InputError, match="scale = 'fp15'"):
        states.adapters(1024, 10, block=64, scale="fp15")


def test_what_a_stage_holds_by_hand() -> None:
    """A tied head behind other stages is a second table; a rank has its part of what is split."""
    layout = Layout(pipeline=2, tensor=2)
    model = SMALL.but(vocab=511, head_bias=True)
    first, last = (states.stage_parameters(model, layout, stage=i) for i in range(2))
    one = {"attention": 4 * (2 * 64 * 64 + 3 * 32 + 64), "mlp": 4 * (4 * 64 * 64 + 128 + 64)}
    assert dict(first.items()) == {
        "embedding": 256 * 64,
        "positions": 128 * 64,
        **one,
        "norms": 4 * 4 * 64,
    }
    assert dict(last.items()) == {**one, "norms": 4 * 4 * 64 + 2 * 64, "head": 256 * 64 + 256}
    alone = states.stage_parameters(model, Layout())
    assert alone["head"] == 511 and alone["embedding"] == 511 * 64
    untied = states.stage_parameters(SMALL.but(tied=False), Layout(tensor=2))
    assert untied["head"] == untied["embedding"] == 256 * 64
    relative = SMALL.but(positions="relative")
    split = [states.stage_parameters(relative, layout, stage=i)["positions"] for i in range(2)]
    assert split == [params.count(relative).amount("positions") / 4] * 2


@given(counts, RECIPES, st.integers(0, 3), degrees)
def test_parts_add_up_to_the_recipe(psi: float, recipe: str, zero: int, shard: int) -> None:
    kept = states.model_states(psi, recipe=recipe, zero=zero, shard=shard)
    assert list(kept) == ["weights", "gradients", "master weights", "optimizer states"]
    assert kept.total == pytest.approx(
        psi * states.per_parameter(recipe, zero=zero, shard=shard).total
    )
    whole = states.model_states(psi, recipe=recipe)
    assert whole.total == pytest.approx(psi * precision.bytes_per_parameter(recipe).total)
    for part, stage in states.SHARDED_FROM.items():
        assert kept.amount(part) == pytest.approx(
            whole.amount(part) / (shard if zero >= stage else 1)
        )


@given(counts, RECIPES, degrees)
def test_more_sharding_never_costs_memory(psi: float, recipe: str, shard: int) -> None:
    by_stage = [
        states.model_states(psi, recipe=recipe, zero=z, shard=shard).total for z in range(4)
    ]
    assert all(
        later <= earlier * (1 + 1e-12)
        for earlier, later in zip(by_stage, by_stage[1:], strict=False)
    )
    for zero in range(4):
        wider = states.model_states(psi, recipe=recipe, zero=zero, shard=2 * shard).total
        assert wider <= by_stage[zero] * (1 + 1e-12)
        assert (wider < by_stage[zero] * (1 - 1e-12)) == (zero in shrinking(recipe))


def shrinking(recipe: str) -> set[int]:
    """Stages that have something to shard in this recipe."""
    parts = states.per_parameter(recipe)
    return {
        z
        for z in (1, 2, 3)
        if any(parts.amount(p) for p, s in states.SHARDED_FROM.items() if s <= z)
    }


@given(counts, RECIPES, st.integers(0, 3))
def test_a_group_of_one_saves_nothing(psi: float, recipe: str, zero: int) -> None:
    assert (
        states.model_states(psi, recipe=recipe, zero=zero, shard=1).total
        == states.model_states(psi, recipe=recipe).total
    )


def test_what_is_left_when_the_group_is_endless() -> None:
    left = [states.per_parameter("mixed-adam", zero=zero, shard=10**12).total for zero in range(4)]
    assert left == pytest.approx([16, 4, 2, 0], abs=1e-9)


@given(counts, st.integers(0, 3), st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_zero_divides_after_tensor_and_pipeline(
    psi: float, zero: int, t: int, p: int, shard: int
) -> None:
    both = states.model_states(psi, zero=zero, shard=shard, tensor=t, pipeline=p).total
    assert both == pytest.approx(states.model_states(psi, zero=zero, shard=shard).total / (t * p))
    wrong = states.model_states(psi, zero=zero, shard=shard * t * p).total
    assert zero in (0, 1, 2) or both == pytest.approx(wrong), (
        "only stage 3 divides everything by all devices"
    )


@given(
    st.floats(1e9, 1e12),
    RECIPES,
    st.integers(0, 3),
    st.integers(1, 512),
    st.integers(1, 16),
    st.integers(1, 16),
)
def test_the_largest_model_fills_the_device(
    room: float, recipe: str, zero: int, shard: int, t: int, p: int
) -> None:
    psi = states.largest_model(room, recipe=recipe, zero=zero, shard=shard, tensor=t, pipeline=p)
    assert states.model_states(
        psi, recipe=recipe, zero=zero, shard=shard, tensor=t, pipeline=p
    ).total == pytest.approx(room)


@given(counts)
def test_a_checkpoint_has_no_gradients(psi: float) -> None:
    assert states.checkpoint(psi).total == pytest.approx(14 * psi)
    assert states.checkpoint(psi, weights_only=True).total == pytest.approx(2 * psi)
    kept = states.model_states(psi, recipe="adam-fp32-kept").total
    assert states.checkpoint(psi, recipe="adam-fp32").total == pytest.approx(kept)


def test_qlora_is_a_quarter_of_lora_and_its_scales_an_eighth_of_a_bit() -> None:
    lora, qlora = (
        states.adapters(65e9, 1e8),
        states.adapters(65e9, 1e8, base="nf4", block=64, second_block=256),
    )
    assert qlora["frozen weights"] == pytest.approx(lora.amount("frozen weights") / 4)
    assert qlora["scales"] == pytest.approx(65e9 * 0.127 / 8, rel=2e-3)
    assert qlora.amount("adapters") == lora.amount("adapters") == pytest.approx(1.6e9)


def test_one_device_holds_every_parameter() -> None:
    for name in specs.table("models"):
        assert states.stage_parameters(name, Layout()).total == params.total(name)


KINDS = {
    "plain": SMALL,
    "untied": SMALL.but(tied=False),
    "grouped": SMALL.but(kv_heads=2, qkv_bias=False),
    "gated": SMALL.but(gated=True, norm="rmsnorm", positions="rotary"),
    "relative": SMALL.but(positions="relative", embedding_norm=True),
    "experts": SMALL.but(
        experts=specs.Experts(routed=4, active=2, width=32, shared=1, dense_layers=3)
    ),
    "every second": SMALL.but(experts=specs.Experts(routed=4, active=2, width=32, every=2)),
    "every third behind dense ones": SMALL.but(
        experts=specs.Experts(routed=4, active=2, width=32, dense_layers=3, every=3)
    ),
    "no layer": SMALL.but(experts=specs.Experts(routed=4, active=2, width=32, every=9)),
    "a gate on the shared": SMALL.but(
        experts=specs.Experts(routed=4, active=2, width=32, shared=2, shared_gate=True)
    ),
    "sinks": SMALL.but(attention_sinks=True, head_bias=True),
    "windowed": SMALL.but(window=specs.Window(width=16, full_every=2)),
    "latent": SMALL.but(
        latent=specs.Latent(kv_rank=32, rope_dim=8, nope_dim=16, value_dim=16, query_rank=48)
    ),
    "normed heads": SMALL.but(query_key_norm="head", head_bias=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunks", [1, 2])
def test_stages_together_hold_the_model_once_and_a_tied_table_twice(kind: str, chunks: int) -> None:
    model = KINDS[kind]
    layout = Layout(pipeline=4, chunks=chunks, micro_batches=4)
    held = [states.stage_parameters(model, layout, stage=i) for i in range(4)]
    again = model.padded_vocab * model.width if model.tied else 0
    assert sum(one.total for one in held) == pytest.approx(params.total(model) + again)
    assert (
        "embedding" in held[0]
        and "head" in held[3]
        and not {"embedding", "head"} & {*held[1], *held[2]}
    )


def test_norms_outside_the_layers_stand_at_the_ends() -> None:
    model = SMALL.but(embedding_norm=True)
    norms = [states.stage_parameters(model, Layout(pipeline=4), stage=i)["norms"] for i in range(4)]
    one, per_layer = 2 * 64, 2 * 2 * 64
    assert norms == [2 * per_layer + one, 2 * per_layer, 2 * per_layer, 2 * per_layer + one]


def tensors(model: Model) -> list[tuple[int, bool]]:
    """A plain GPT's parameters by hand: elements, and whether tensor parallelism splits them."""
    h, f, V = model.width, model.ffn_width, model.padded_vocab
    attention = [(3 * h * h, True), (3 * h, True), (h * h, True), (h, False)]
    mlp = [(f * h, True), (f, True), (h * f, True), (h, False)]
    layer = [*attention, *mlp, (2 * h, False), (2 * h, False)]
    return [(V * h, True), (model.position_rows * h, False), *layer * model.layers, (2 * h, False)]


@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_tensor_parallelism_splits_matrices_and_repeats_the_rest(t: int) -> None:
    expected = sum(n // t if split else n for n, split in tensors(SMALL))
    assert states.stage_parameters(SMALL, Layout(tensor=t)).total == expected


def test_what_tensor_parallelism_does_to_sinks_and_gates() -> None:
    sinks = states.stage_parameters(SMALL.but(attention_sinks=True), Layout(tensor=4))
    assert sinks["sinks"] == 8 * 8 // 4, "a sink goes with its head"
    experts = specs.Experts(routed=4, active=2, width=32, shared=2)
    gated = SMALL.but(experts=specs.Experts(4, 2, 32, shared=2, shared_gate=True))
    bare, gate = (
        states.stage_parameters(model, Layout(tensor=4)).amount("shared experts")
        for model in (SMALL.but(experts=experts), gated)
    )
    assert gate - bare == 8 * 64, "every device has the whole gate"


def test_the_dense_layers_between_those_with_experts_must_divide_as_well() -> None:
    odd = SMALL.but(ffn_width=100, experts=specs.Experts(routed=4, active=2, width=32, every=2))
    with pytest.raises(InputError, match="tensor = 8: does not divide ffn_width = 100"):
        states.stage_parameters(odd, Layout(tensor=8))


@pytest.mark.parametrize("layers, stages", [(9, 3), (49, 7), (98, 49)])
def test_counts_of_a_device_are_whole_numbers(layers: int, stages: int) -> None:
    """A share such as 1/49 of the norms is no exact fraction to a computer."""
    model = SMALL.but(layers=layers, norm="rmsnorm", positions="relative", tied=False)
    layout = Layout(pipeline=stages, tensor=2)
    held = [states.stage_parameters(model, layout, stage=i) for i in range(stages)]
    assert all(type(one[name]) is int for one in held for name in one)
    assert sum(one.amount("norms") for one in held) == params.count(model).amount("norms")
    matrices = params.count(model).amount("mlp") - layers * 64
    assert sum(one.amount("mlp") for one in held) == matrices / 2 + layers * 64


def test_grouped_heads_are_repeated_when_there_are_more_devices() -> None:
    model = SMALL.but(kv_heads=2, qkv_bias=False)
    two, eight = (
        states.stage_parameters(model, Layout(tensor=t)).amount("attention") for t in (2, 8)
    )
    h, d = model.width, model.head_dim
    per_layer = (
        h * d * (8 // 8 + 1 + 1) + d * h + h
    )  # a head of each kind, the projection's rows, its whole bias
    assert eight == model.layers * per_layer and two > eight


def test_a_tensor_degree_that_does_not_divide_is_refused_and_the_vocabulary_padded() -> None:
    with pytest.raises(InputError, match="tensor = 5: does not divide heads = 12"):
        states.stage_parameters("gpt2", Layout(tensor=5))
    four = states.stage_parameters("gpt2", Layout(tensor=4))
    assert four["embedding"] == 50260 // 4 * 768 and "padded to 50,260" in four.title
    assert all(type(four[name]) is int for name in four)
    assert "padded" not in states.stage_parameters("gpt2", Layout()).title


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: states.model_states(-1), "parameters = -1"),
        (lambda: states.model_states(float("inf")), "parameters = inf"),
        (lambda: states.model_states("7B"), "parameters = '7B'"),
        (lambda: states.model_states(7e9, zero=4), "zero = 4"),
        (lambda: states.model_states(7e9, zero=True), "zero = True"),
        (lambda: states.model_states(7e9, shard=0), "shard = 0"),
        (lambda: states.model_states(7e9, tensor=1.5), "tensor = 1.5"),
        (lambda: states.largest_model(0), "memory = 0"),
        (lambda: states.adapters(1e9, 0), "trainable = 0"),
        (lambda: states.adapters(1e9, 1e6, base="nf5"), "base = 'nf5': did you mean nf4"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
