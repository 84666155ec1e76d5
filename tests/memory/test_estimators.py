"""Other programs' estimators: laws that tie them to the library's own accounting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import activations, estimators, states
from mathlib.specs import Layout

counts = st.integers(10**6, 10**12)


EIGHT = {"devices_per_node": 4, "nodes": 2}


def test_deepspeed_stage_2_by_hand() -> None:
    """1e9 parameters: 16 or 18 of their bytes over 8 devices, the host's times 1.5."""
    for how, device, host in (
        ({}, 4e9 + 16e9, 1.5 * 4e9),
        (EIGHT, 4e9 + 2e9, 1.5 * 4 * 4e9),
        ({**EIGHT, "version": "code"}, 2e9 + 18e9 / 8, 1.5 * 4 * 4e9),
        ({**EIGHT, "offload": "optimizer"}, 2e9, 1.5 * 16e9),
        ({**EIGHT, "offload": "optimizer", "version": "code"}, 2e9, 1.5 * 32e9),
        ({"offload": "optimizer", "version": "code"}, 2e9, 1.5 * 16e9),
        ({"devices_per_node": 8, "offload": "optimizer"}, 2e9, 1.5 * 32e9),
        ({**EIGHT, "buffer_factor": 2}, 4e9 + 2e9, 2 * 4 * 4e9),
        ({"offload": "optimizer", "buffer_factor": 2}, 2e9, 2 * 16e9),
    ):
        assert estimators.deepspeed_zero2(1e9, **how) == {"device": device, "host": host}, how


def test_deepspeed_stage_3_by_hand() -> None:
    """8e9 parameters, of which the largest layer has 1e9; a host of two has half of the rest."""
    for how, device, host in (
        ({}, 4e9 + 18 * 8e9, 1.5 * 4e9),
        (EIGHT, 4e9 + 18e9, 1.5 * 4e9 * 4),
        ({**EIGHT, "zero_init": False}, 4e9 + 18e9, 1.5 * 4 * 4 * 8e9),
        ({**EIGHT, "offload": "optimizer"}, 4e9 + 2e9, 1.5 * 16 * 8e9 / 2),
        ({**EIGHT, "offload": "all"}, 4e9, 1.5 * 18 * 8e9 / 2),
        ({**EIGHT, "offload": "all", "zero_init": False}, 4e9, 1.5 * 4 * 4 * 8e9),
        ({"offload": "all", "zero_init": False}, 4e9, 1.5 * 18 * 8e9),
        ({"offload": "all", "buffer_factor": 1}, 4e9, 18 * 8e9),
    ):
        found = estimators.deepspeed_zero3(8e9, largest_layer=1e9, **how)
        assert found == {"device": device, "host": host}, how
    assert estimators.deepspeed_zero3(1e9, largest_layer=1e9, offload="all")["device"] == 4e9


def test_megatrons_estimate_by_hand() -> None:
    """s b (18 h + 4 f) L / t, whatever is in flight; 32 tokens, 2 sequences, 2 tensor ranks."""
    model = specs.Model("small", layers=4, width=64, heads=8, vocab=500, context=32)
    layers, embedding = 64 * (18 * 64 + 4 * 256) * 4 / 2, 64 * (8 + 64) / 2
    how = {"micro_batch": 2, "tensor": 2}
    alone = estimators.megatron_activations(model, **how)
    head = {"head": 64 * 4 * (64 + 500) / 2}
    assert dict(alone.items()) == {"layers": layers, "embedding": embedding, **head}
    for v, m, penalty in ((1, 0, 1), (1, 2, 0.5), (1, 8, 1), (2, 8, 1 + 3 / 8)):
        stage = {"pipeline": 4, "chunks": v, "micro_batches": m}
        found = estimators.megatron_activations(model, **how, **stage)
        assert dict(found.items()) == {
            "layers": layers * penalty,
            "embedding": 4 * embedding * penalty,
        }
    more = estimators.megatron_activations(model, **how, pipeline=4)
    assert more.total == layers + 4 * embedding, "as many micro-batches as stages, one chunk"
    one = estimators.megatron_activations(model)
    assert dict(one.items()) == dict(alone.items()), "half of the sequences, on half of the ranks"


def test_accelerate_by_hand() -> None:
    assert estimators.accelerate_size(1e9) == 4e9
    assert estimators.accelerate_size(1e9, dtype="int8", buffer_bytes=1e6) == 1e9 + 2.5e5
    training = dict(estimators.accelerate_training(1e9).items())
    assert training == {"weights": 1e9, "gradients": 1e9, "optimizer states": 2e9}
    assert estimators.megatron_bytes(data=4) == 18
    assert estimators.megatron_bytes(distributed_optimizer=True) == 18
    assert estimators.megatron_bytes(data=4, distributed_optimizer=True) == 6 + 3


@given(counts, st.integers(1, 16), st.integers(1, 64))
def test_deepspeed_stage_2_on_the_device(psi: int, n: int, nodes: int) -> None:
    shape = {"devices_per_node": n, "nodes": nodes}
    code = estimators.deepspeed_zero2(psi, version="code", **shape)["device"]
    named = states.model_states(
        psi, recipe="mixed-adam-both-gradients", zero=2, shard=n * nodes
    ).total
    assert code == pytest.approx(named, abs=2), "the code is ZeRO-2 of the 20-byte recipe"
    assert estimators.deepspeed_zero2(psi, offload="optimizer", **shape)["device"] == 2 * psi


@given(counts, st.integers(1, 16), st.integers(1, 64))
def test_docs_and_code_disagree_about_the_host_from_two_nodes_on(
    psi: int, n: int, nodes: int
) -> None:
    shape = {"devices_per_node": n, "nodes": nodes}
    docs, code = (
        estimators.deepspeed_zero2(psi, offload="optimizer", version=version, **shape)["host"]
        for version in ("docs", "code")
    )
    assert docs == pytest.approx(1.5 * psi * max(4 * n, 16), abs=1)
    assert (code > docs) == (nodes > 1 and 4 * n * nodes > 16)


@given(counts, st.integers(1, 16), st.integers(1, 64), st.booleans())
def test_deepspeed_stage_3_trades_device_for_host(psi: int, n: int, nodes: int, init: bool) -> None:
    shape = {"devices_per_node": n, "nodes": nodes}
    each = [
        estimators.deepspeed_zero3(
            psi, largest_layer=psi / 10, offload=offload, zero_init=init, **shape
        )
        for offload in estimators.OFFLOAD
    ]
    devices, hosts = [e["device"] for e in each], [e["host"] for e in each]
    assert devices == sorted(devices, reverse=True)
    assert hosts[1] <= hosts[2]
    assert devices[2] == int(4 * psi / 10)
    assert devices[0] - devices[2] == int(18 * psi / (n * nodes))
    kept = [0, 16 / nodes, 18 / nodes]  # bytes a parameter on one host
    floor = [
        4 * n / 10 if init else 4 * n,
        0 if init else 4 * n,
        0 if init else 4 * n,
    ]  # the model as it is created
    assert hosts == pytest.approx(
        [1.5 * psi * max(k, f) for k, f in zip(kept, floor, strict=True)], abs=2
    )


@given(st.integers(1, 4096))
def test_megatrons_distributed_optimizer_is_stage_1(data: int) -> None:
    assert estimators.megatron_bytes(data=data, distributed_optimizer=True) == pytest.approx(
        6 + 12 / data
    )
    assert estimators.megatron_bytes(data=data) == 18, "without it, every rank keeps all 18"


@pytest.mark.parametrize(("p", "v", "m"), [(1, 1, 1), (4, 1, 8), (4, 1, 2), (4, 3, 12)])
def test_megatrons_estimate_is_the_first_stage_in_the_steady_state(p: int, v: int, m: int) -> None:
    shape = {"pipeline": p, "chunks": v, "tensor": 8, "micro_batch": 2, "micro_batches": m}
    model = specs.find_model("gpt3-175b").but(padded_vocab=51200)
    ours = activations.stage(model, Layout(sequence_parallel=True, recompute="selective", **shape))
    theirs = estimators.megatron_activations(model, **shape)
    assert theirs["layers"] == pytest.approx(ours.amount("layers"))
    mask = theirs.amount("embedding") * 12288 / (12288 + 8)  # without the tokens' numbers
    # it charges the embedding as it does the layers, 5 micro-batches; its schedule holds 8
    charged, held = (5, 8) if v > 1 else (1, 1)
    assert mask == pytest.approx(ours.amount("embedding") * charged / held)
    assert ("head" in theirs) == (p == 1) and (
        p > 1 or theirs["head"] == pytest.approx(ours.amount("head"))
    )


@given(counts, st.integers(0, 10**6))
def test_accelerate_scales_everything(psi: int, buffers: int) -> None:
    fp32, fp16, int4 = (
        estimators.accelerate_size(psi, dtype=dtype, buffer_bytes=buffers)
        for dtype in ("fp32", "fp16", "int4")
    )
    assert fp32 == 4 * psi + buffers and fp16 == fp32 / 2 and int4 == fp32 / 8
    assert estimators.accelerate_training(fp16).total == pytest.approx(4 * fp16)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: estimators.deepspeed_zero2(-1), "parameters = -1"),
        (lambda: estimators.deepspeed_zero2(1e9, offload="all"), "offload = 'all'"),
        (lambda: estimators.deepspeed_zero2(1e9, version="blog"), "version = 'blog'"),
        (lambda: estimators.deepspeed_zero2(1e9, nodes=0), "nodes = 0"),
        (
            lambda: estimators.deepspeed_zero3(1e6, largest_layer=1e7),
            "largest_layer = 10000000.0: expected at most",
        ),
        (
            lambda: estimators.deepspeed_zero3(1e6, largest_layer=1e5, buffer_factor=float("nan")),
            "buffer_factor = nan",
        ),
        (lambda: estimators.megatron_bytes(data=0), "data = 0"),
        (lambda: estimators.megatron_activations("gpt2", chunks=True), "chunks = True"),
        (lambda: estimators.accelerate_size(1e6, dtype="half"), "dtype = 'half'"),
        (lambda: estimators.accelerate_training(0), "size = 0"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
