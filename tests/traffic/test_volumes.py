"""Bytes of a training step against the collectives they are made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.specs import Model
from mathlib.traffic import comm, volumes

MODEL = Model("small", layers=6, width=64, heads=4, vocab=500, context=32)
counts, ranks = st.floats(1, 1e12), st.integers(1, 512)


def parts(found: object) -> dict[str, float]:
    return dict(found.items())  # type: ignore[attr-defined]


def test_tensor_parallel_by_hand() -> None:
    """2 all-reduces of 32 x 64 numbers each way, 3/4 of them twice, in each of 6 layers."""
    how = {"tensor": 4}
    each = 2 * 2 * (3 / 4) * 2 * 32 * 64 * 6
    assert parts(volumes.tensor_parallel(MODEL, **how)) == {"forward": each, "backward": each}
    full = volumes.tensor_parallel(MODEL, **how, recompute="full", layers=3)
    assert parts(full) == dict.fromkeys(("forward", "backward", "recomputation"), each / 2)
    more = {"micro_batch": 2, "tokens": 16, "micro_batches": 3, "bytes_per_element": 4}
    again = {"sequence_parallel": True, "regather": True}
    assert parts(volumes.tensor_parallel(MODEL, **how, **more, **again)) == {
        "forward": 6 * each,
        "backward": 6 * each,
        "gathering inputs again": 3 * each,
    }
    assert volumes.tensor_parallel(MODEL, **how, large_group=True).total == 2 * each / (3 / 4)
    assert volumes.tensor_parallel(MODEL, tensor=1, large_group=True).total == 0


def test_pipeline_parallel_by_hand() -> None:
    """32 x 64 numbers of 2 bytes a chunk; none from the last chunk on, nor from the first back."""
    each = 2 * 32 * 64
    for stage, wanted in ((0, (2, 1)), (1, (2, 2)), (3, (1, 2))):
        how = {"pipeline": 4, "stage": stage, "chunks": 2}
        sent = parts(volumes.pipeline_parallel(MODEL, **how))
        assert (sent["forward"], sent["backward"]) == (wanted[0] * each, wanted[1] * each)
    pair = {"pipeline": 2, "tensor": 4}
    assert parts(volumes.pipeline_parallel(MODEL, **pair)) == {"forward": each, "backward": 0}
    more = {"micro_batch": 2, "tokens": 16, "micro_batches": 3, "bytes_per_element": 4}
    split = volumes.pipeline_parallel(MODEL, **pair, **more, scatter_gather=True)
    assert split["forward"] == 6 * each / 4
    assert volumes.pipeline_parallel(MODEL, pipeline=1, chunks=1).total == 0


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_when_a_pipeline_sends_as_much_as_gradients_do(devices) -> None:
    width, context = MODEL.width, MODEL.context
    least = volumes.pipeline_tokens(parameters=1e5 * width, width=width, data=devices)
    gradients = volumes.zero(parameters=1e5 * width, data=devices).total
    assert gradients == pytest.approx(2 * 2 * least * width)  # to both sides, 2 bytes a number
    one = volumes.pipeline_parallel(MODEL, pipeline=4, stage=1).total
    assert one == 2 * 2 * context * width


def test_zero_by_hand() -> None:
    """10 parameters of 2 bytes over 4 ranks: 3/4 of 20 bytes a pass."""
    one = 15
    for how, wanted in (
        ({}, {"gradients": 2 * one}),
        ({"stage": 1}, {"gradients": one, "weights": one}),
        ({"stage": 1, "stage_one": "all-reduce"}, {"gradients": 2 * one, "weights": one}),
        ({"stage": 2, "stage_one": "all-reduce"}, {"gradients": one, "weights": one}),
        ({"stage": 2, "micro_batches": 3}, {"gradients": 3 * one, "weights": one}),
        ({"stage": 1, "micro_batches": 3}, {"gradients": one, "weights": one}),
        (
            {"stage": 3, "micro_batches": 3, "each_micro_batch": False},
            {"gradients": one, "weights, forward": 3 * one, "weights, backward": 3 * one},
        ),
        (
            {"stage": 3, "keep_gathered": True, "weight_bytes": 4},
            {"gradients": one, "weights, forward": 2 * one, "weights, backward": 0},
        ),
        (
            {"stage": 1, "shard": 2, "gradient_bytes": 4},
            {"gradients": 20, "weights": 10, "gradients, replicas": 2 * 40 / 2 / 2},
        ),
        (
            {"stage": 1, "shard": 2, "large_group": True},
            {"gradients": 20, "weights": 20, "gradients, replicas": 2 * 20 / 2},
        ),
        ({"shard": 2}, {"gradients": 2 * one}),
    ):
        assert parts(volumes.zero(parameters=10, data=4, **how)) == wanted, how


def test_zero_plus_plus_and_the_rest_by_hand() -> None:
    assert parts(volumes.zero_plus_plus(parameters=10)) == {
        "weights, forward": 10,
        "weights, backward": 0,
        "gradients": 5,
    }
    assert volumes.compression(warm_up=0.5) == 1 / (0.5 + 0.5 / 16)
    assert volumes.compression(warm_up=0.5, bits=2, full_bits=4) == 1 / 0.75
    link = {"flops_per_second": 1e12, "bandwidth": 1e9, "data": 4}
    assert volumes.overlap_tokens(**link) == 750
    assert volumes.overlap_tokens(**link, gradient_bytes=4, large_group=True) == 2000


@given(counts, ranks, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.integers(1, 16))
def test_zero_is_made_of_collectives(psi: float, n: int, w: int, g: int, m: int) -> None:
    scatter = comm.sent("reduce-scatter", payload=psi * g, ranks=n)
    gather = comm.sent("all-gather", payload=psi * w, ranks=n)
    reduce = comm.sent("all-reduce", payload=psi * g, ranks=n)

    def sent(**how: object) -> float:
        return volumes.zero(
            parameters=psi, data=n, weight_bytes=w, gradient_bytes=g, micro_batches=m, **how
        ).total  # type: ignore[arg-type]

    assert sent(stage=0) == pytest.approx(reduce)
    assert sent(stage=1) == pytest.approx(scatter + gather)
    assert sent(stage=1, stage_one="all-reduce") == pytest.approx(reduce + gather)
    assert sent(stage=2) == pytest.approx(m * scatter + gather)
    assert sent(stage=2, each_micro_batch=False) == pytest.approx(scatter + gather)
    assert sent(stage=3) == pytest.approx(m * (scatter + 2 * gather))
    assert sent(stage=3, keep_gathered=True) == pytest.approx(m * (scatter + gather))


@given(counts, st.integers(2, 512), st.integers(2, 64))
def test_accumulation_costs_stages_2_and_3_alone(psi: float, n: int, m: int) -> None:
    for stage in range(4):
        once, many = (
            volumes.zero(parameters=psi, data=n, stage=stage, micro_batches=k).total for k in (1, m)
        )
        assert (many > once * 1.2) == (stage >= 2) and (many == once or stage >= 2)


@given(counts, st.integers(1, 32), st.integers(1, 32), st.integers(1, 3))
def test_mics_sends_less_in_its_ring_and_adds_the_replicas(
    psi: float, shard: int, replicas: int, stage: int
) -> None:
    flat = volumes.zero(parameters=psi, data=shard * replicas, stage=stage)
    mics = volumes.zero(parameters=psi, data=shard * replicas, shard=shard, stage=stage)
    between = mics.amount("gradients, replicas") if replicas > 1 else 0
    assert between == pytest.approx(
        comm.sent("all-reduce", payload=2 * psi / shard, ranks=replicas)
    )
    assert mics.total - between <= flat.total * (1 + 1e-12)
    if stage == 1:
        assert mics.total == pytest.approx(2 * 2 * psi * (shard - 1) / shard + between)


@given(counts, st.integers(2, 10**6), st.integers(0, 3))
def test_large_groups_are_the_limit(psi: float, n: int, stage: int) -> None:
    exact = volumes.zero(parameters=psi, data=n, stage=stage).total
    printed = volumes.zero(parameters=psi, data=n, stage=stage, large_group=True).total
    assert exact == pytest.approx(printed * (n - 1) / n)
    assert printed == pytest.approx((3 if stage == 3 else 2) * 2 * psi)
    assert volumes.zero(parameters=psi, data=1, stage=stage, large_group=True).total == 0, (
        "one rank sends nothing"
    )


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 32), st.integers(1, 8))
def test_tensor_parallel_is_four_all_reduces_a_layer(t: int, b: int, s: int, m: int) -> None:
    model = MODEL.but(heads=t, head_dim=16)
    each = comm.sent("all-reduce", payload=2 * b * s * 64, ranks=t)

    def total(**how: object) -> float:
        return volumes.tensor_parallel(
            model, tensor=t, micro_batch=b, tokens=s, micro_batches=m, **how
        ).total  # type: ignore[arg-type]

    assert total() == total(recompute="selective") == pytest.approx(4 * 6 * m * each)
    assert total(recompute="full") == pytest.approx(6 * 6 * m * each)
    assert total(sequence_parallel=True) == total()
    gather = comm.sent("all-gather", payload=2 * b * s * 64, ranks=t)
    assert total(sequence_parallel=True, regather=True) == pytest.approx(
        total() + 2 * 6 * m * gather
    )


@pytest.mark.parametrize("name", ["gptj-6b", "gpt-neox-20b", "pythia-1b", "palm-8b", "phi-2"])
def test_side_by_side_attention_and_mlp_are_reduced_together(name: str) -> None:
    """GPT-NeoX adds both sums up before its one all-reduce (Pope et al. 2022, section 3.4)."""
    model = specs.find_model(name)
    payload = 2 * 1024 * model.width
    how = {"tensor": 2, "tokens": 1024, "layers": 1}
    one = comm.sent("all-reduce", payload=payload, ranks=2)
    assert volumes.tensor_parallel(model, **how).total == 2 * one
    assert volumes.tensor_parallel(model, **how, recompute="full").total == 3 * one
    assert volumes.tensor_parallel(model.but(parallel_block=False), **how).total == 4 * one
    gather = comm.sent("all-gather", payload=payload, ranks=2)
    again = volumes.tensor_parallel(model, **how, sequence_parallel=True, regather=True)
    assert again.total == 2 * one + gather


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 16))
def test_pipeline_messages_counted_hop_by_hop(p: int, v: int, m: int) -> None:
    """A micro-batch visits p v chunks in order; every hop to another device is a message, there and
    back.
    """
    places = [chunk % p for chunk in range(p * v)]
    forward, backward = [0] * p, [0] * p
    for here, there in zip(places, places[1:], strict=False):
        if here != there:
            forward[here] += m
            backward[there] += m
    message = 2 * 32 * 64
    for stage in range(p):
        sent = volumes.pipeline_parallel(MODEL, pipeline=p, stage=stage, chunks=v, micro_batches=m)
        assert (sent["forward"], sent["backward"]) == (
            forward[stage] * message,
            backward[stage] * message,
        )
        split = volumes.pipeline_parallel(
            MODEL, pipeline=p, stage=stage, chunks=v, micro_batches=m, tensor=4, scatter_gather=True
        )
        assert split.total == sent.total / 4


def test_zero_plus_plus_by_part() -> None:
    plain = volumes.zero_plus_plus(
        parameters=1, quantised_weights=False, node_copy=False, quantised_gradients=False
    )
    assert plain.total == volumes.zero(parameters=1, data=64, stage=3, large_group=True).total == 6
    for off, more in (("quantised_weights", 1), ("node_copy", 1), ("quantised_gradients", 1.5)):
        assert volumes.zero_plus_plus(parameters=1, **{off: False}).total == 1.5 + more  # type: ignore[arg-type]


@given(st.floats(1e-6, 1), st.floats(1, 16))
def test_compression_lies_between_its_phases(w: float, bits: float) -> None:
    less = volumes.compression(warm_up=w, bits=bits)
    assert 1 - 1e-12 <= less <= 16 / bits + 1e-12
    assert volumes.compression(warm_up=1, bits=bits) == 1


@given(st.floats(1e12, 1e16), st.floats(1e8, 1e12), st.integers(2, 4096), st.floats(1e6, 1e12))
def test_the_parameter_count_cancels_in_the_overlap(x: float, b: float, n: int, psi: float) -> None:
    tokens = volumes.overlap_tokens(flops_per_second=x, bandwidth=b, data=n)
    backward = 4 * psi * tokens / x
    reduction = comm.time("all-reduce", payload=2 * psi, ranks=n, bandwidth=b).total
    assert backward == pytest.approx(reduction), "for any psi"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: volumes.zero(parameters=0, data=8), "parameters = 0"),
        (lambda: volumes.zero(parameters=1, data=8, stage=4), "stage = 4"),
        (
            lambda: volumes.zero(parameters=1, data=8, stage=1, shard=3),
            "data = 8; accepted: 1, 2, 4, 8",
        ),
        (lambda: volumes.zero(parameters=1, data=8, stage_one="gather"), "stage_one = 'gather'"),
        (lambda: volumes.zero(parameters=1, data=8, gradient_bytes=-2), "gradient_bytes = -2"),
        (lambda: volumes.tensor_parallel(MODEL, tensor=0), "tensor = 0"),
        (lambda: volumes.tensor_parallel("gtp2", tensor=2), "model = 'gtp2'"),
        (lambda: volumes.tensor_parallel(MODEL, tensor=8), "tensor = 8: does not divide heads = 4"),
        (lambda: volumes.tensor_parallel(MODEL, tensor=2, tokens=33), "tokens = 33: small has"),
        (lambda: volumes.pipeline_parallel(MODEL, pipeline=2, tokens=33), "at most 32"),
        (lambda: volumes.tensor_parallel(MODEL, tensor=2, regather=True), "regather = True"),
        (lambda: volumes.tensor_parallel(MODEL, tensor=2, sequence_parallel=2), "parallel = 2"),
        (lambda: volumes.tensor_parallel(MODEL, tensor=2, recompute="some"), "recompute = 'some'"),
        (lambda: volumes.tensor_parallel(MODEL, tensor=2, layers=-1), "layers = -1"),
        (lambda: volumes.zero(parameters=1, data=8, keep_gathered=2), "keep_gathered = 2"),
        (lambda: volumes.zero(parameters=1, data=8, large_group=2), "large_group = 2"),
        (
            lambda: volumes.pipeline_parallel(MODEL, pipeline=4, stage=4),
            "stage = 4: expected 0 to 3",
        ),
        (lambda: volumes.compression(warm_up=1.5), "warm_up = 1.5"),
        (
            lambda: volumes.overlap_tokens(flops_per_second=1e12, bandwidth=float("inf"), data=2),
            "bandwidth = inf",
        ),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
