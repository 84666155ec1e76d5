"""Other programs' estimators: laws that tie them to the library's own accounting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.memory import activations, estimators, states
from mathlib.specs import Layout, find_model

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


def test_accelerate_by_hand() -> None:
    assert estimators.accelerate_size(1e9) == 4e9
    assert estimators.accelerate_size(1e9, dtype="int8", buffer_bytes=1e6) == 1e9 + 2.5e5
    training = dict(estimators.accelerate_training(1e9).items())
    assert training == {"weights": 1e9, "gradients": 1e9, "optimizer states": 2e9}


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
        (lambda: estimators.accelerate_size(1e6, dtype="half"), "dtype = 'half'"),
        (lambda: estimators.accelerate_training(0), "size = 0"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)


def megatron(model, *, p, v, t, b, m):
    """compute_activation_memory of megatron/training/theoretical_memory_usage.py, at commit
    00caa53: sequence parallelism and selective recomputation; parts before and after its factor.
    """
    s, h, f, V = model.context, model.width, model.ffn_width, model.padded_vocab
    penalty = 1 + (p - 1) / (p * v) if v > 1 else min(1, m / p) if p > 1 else 1
    layers, mask = s * b * h * (18 + 4 * (f / h)) * model.layers, s * b * h * p
    head = s * b * h * 4 * (1 + V / h) if p == 1 else 0
    return {"layers": layers * penalty / t, "embedding": mask * penalty / t, "head": head / t}


@pytest.mark.parametrize(("p", "v", "m"), [(1, 1, 1), (4, 1, 8), (4, 1, 2), (4, 3, 12)])
def test_the_first_stage_is_as_megatron_estimates_it(p, v, m):
    model, b, t = find_model("gpt3-175b").but(padded_vocab=51200), 2, 8
    shape = {"pipeline": p, "chunks": v, "tensor": t, "micro_batch": b, "micro_batches": m}
    ours = activations.stage(model, Layout(sequence_parallel=True, recompute="selective", **shape))
    theirs = megatron(model, p=p, v=v, t=t, b=b, m=m)
    # it charges interleaved embeddings as it does the layers, 5 micro-batches; its schedule holds 8
    charged, held = (5, 8) if v > 1 else (1, 1)
    assert theirs["layers"] == pytest.approx(ours.amount("layers"))
    assert theirs["embedding"] == pytest.approx(ours.amount("embedding") * charged / held)
    assert theirs["head"] == pytest.approx(ours.amount("head") if p == 1 else 0)
