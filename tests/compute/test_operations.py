"""Operations of a layer: FLOP as the formulas count them, bytes by hand."""

import pytest

from mathlib import specs
from mathlib.compute import flops, operations, params, roofline

SMALL = specs.Model("small", layers=3, width=64, heads=4, vocab=100, context=32, dropout=False)


def named(found, name):
    (one,) = [one for one in found if one.name == name]
    return one


def test_flop_of_every_model_are_those_of_the_formula():
    for name in specs.table("models"):
        model = specs.find_model(name)
        for kernel, five in (("standard", 2), ("flash", 2.5)):
            ahead = operations.step(model, attention=kernel, way="forward")
            assert roofline.totals(ahead).total == pytest.approx(flops.forward(model).total)
            back = roofline.totals(operations.step(model, attention=kernel, way="backward"))
            wanted = flops.backward(model, attention_backward=five).total
            assert back.total == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_does_the_pairs_that_the_mask_keeps_and_five_matmuls_for_two(causal):
    asked = {"attention": "flash", "causal": causal}
    found = {
        way: roofline.totals(operations.step(SMALL, way=way, **asked)).total
        for way in ("forward", "backward", "both")
    }
    assert found["forward"] == flops.forward(SMALL, causal=causal).total
    wanted = flops.backward(SMALL, causal=causal, attention_backward=2.5).total
    assert found["backward"] == wanted and found["both"] == sum(
        found[way] for way in ("forward", "backward")
    )


def test_bytes_of_a_layer_by_hand():
    n, h, s, d, e = 2 * 32, 64, 32, 16, 4
    found = operations.layer(
        SMALL, micro_batch=2, fused=False, bytes_per_element=e, way="forward", attention="standard"
    )
    assert named(found, "up").moved == e * (n * h + h * 4 * h + n * 4 * h)
    assert named(found, "queries, keys, values").moved == e * (n * h + 3 * h * h + 3 * n * h)
    scores = named(found, "scores")
    assert scores.moved == 2 * 4 * e * (2 * s * d + s * s) and scores.times == 1
    assert named(found, "norm").moved == 2 * e * n * h and named(found, "norm").times == 2
    assert named(found, "residual").moved == 3 * e * n * h
    assert named(found, "softmax").moved == 6 * e * 2 * 4 * s * s
    assert named(found, "GELU").moved == 2 * e * n * 4 * h and named(found, "GELU").times == 1


def test_one_kernel_serves_all_heads_of_all_sequences():
    for kernel, how_many in (("flash", (1, 1)), ("standard", (2, 4))):
        for way, wanted in zip(("forward", "backward"), how_many, strict=True):
            few, many = (
                operations.layer(SMALL, attention=kernel, micro_batch=b, way=way) for b in (1, 64)
            )
            launched = [
                sum(o.times * o.kernels for o in found if o.part == "attention core")
                for found in (few, many)
            ]
            assert launched == [wanted, wanted]
            assert roofline.totals(many).total == 64 * roofline.totals(few).total


def test_a_line_of_a_program_may_be_more_than_one_kernel():
    eager = operations.layer(SMALL, attention="standard", fused=False, way="forward")
    fused = operations.layer(SMALL, attention="standard", way="forward")
    assert named(eager, "softmax").kernels == 3 and named(fused, "softmax").kernels == 1
    rates = {"peak": 1e12, "bandwidth": 1e12}
    for found, kernels in ((eager, 4 + 2 + 2 + 2 + 3 + 1), (fused, 4 + 2 + 2 + 2 + 1 + 1)):
        without, with_ = (roofline.time(found, **rates, launch=a).total for a in (0, 1))
        assert with_ - without == pytest.approx(kernels)


def test_flash_never_moves_the_scores():
    long = SMALL.but(context=4096)
    plain = operations.layer(long, attention="standard", way="forward")
    flash = named(operations.layer(long, attention="flash", way="forward"), "flash attention")
    assert flash.moved == 2 * 4 * 4096 * 64 + 4 * 4 * 4096  # q, k, v, out, log-sum-exp
    assert sum(o.moved * o.times for o in plain if o.name in ("scores", "values", "softmax")) > (
        100 * flash.moved
    )


def test_scores_are_less_intense_than_a_head_is_wide_however_long_the_sequence():
    for s in (2**10, 2**16, 2**20):
        found = operations.layer(SMALL.but(context=s), attention="standard", way="forward")
        assert named(found, "scores").intensity < SMALL.head_dim
    assert named(found, "scores").intensity == pytest.approx(SMALL.head_dim, rel=1e-3)


def test_decoding_reads_weights_and_cache():
    llama = specs.find_model("llama3-8b")
    found = operations.step(llama, tokens=1, past=1023, way="forward", attention="flash")
    weights = sum(o.moved * o.times for o in found if o.matmul and o.part != "attention core")
    assert weights == pytest.approx(2 * params.met(llama), rel=1e-3)
    assert named(found, "down").intensity == pytest.approx(1, rel=1e-3)
    cache = named(found, "flash attention")
    assert cache.moved == pytest.approx(2 * 2 * 8 * 128 * 1024, rel=0.01)
    assert cache.intensity == pytest.approx(llama.heads / llama.kv_heads, rel=0.01)


def test_grouped_heads_read_fewer_keys_and_multiply_as_many():
    alike = {"attention": "flash", "way": "forward"}
    one = named(operations.layer(SMALL, **alike), "flash attention")
    few = named(operations.layer(SMALL.but(kv_heads=1), **alike), "flash attention")
    assert few.flop == one.flop and few.moved < one.moved


def test_experts_are_read_by_those_who_visit_them():
    moe = SMALL.but(gated=True, experts=specs.Experts(routed=8, active=2, width=32))
    few = operations.layer(moe, tokens=1, way="forward")
    many = operations.layer(moe, tokens=32, way="forward")
    one, all_ = ([o for o in found if o.part == "experts"] for found in (few, many))
    assert {o.times for o in one} == {2} and {o.times for o in all_} == {8}
    assert named(all_, "down").flop == 2 * (32 * 2 / 8) * 32 * 64


@pytest.mark.parametrize("t", [2, 4])
def test_tensor_parallel_divides_the_matmuls_and_sequence_parallel_the_rest(t):
    whole = operations.layer(SMALL, attention="standard")
    part = operations.layer(SMALL, attention="standard", tensor=t)
    split = operations.layer(SMALL, attention="standard", tensor=t, sequence_parallel=True)
    flop = [roofline.totals(found).total for found in (whole, part, split)]
    assert flop == [flop[0], flop[0] / t, flop[0] / t]
    norms = [named(f[: len(f) // 2], "norm").moved for f in (whole, part, split)]
    assert norms == [norms[0], norms[0], norms[0] / t]


def test_fused_kernels_move_less():
    for name in ("gpt2", "llama3-8b"):
        moved = [
            sum(o.moved * o.times for o in operations.step(name, fused=fused) if not o.matmul)
            for fused in (True, False)
        ]
        assert moved[0] < moved[1]


def test_dropout_adds_its_masks():
    with_, without = (operations.step(SMALL, dropout=d, way="forward") for d in (True, False))
    more = sum(o.moved * o.times for o in with_) - sum(o.moved * o.times for o in without)
    scores, stream = 4 * 32 * 32, 32 * 64
    assert more == 3 * (2 * stream + scores * (2 * 2 + 1))


def test_a_step_has_the_layers_and_two_ends():
    step, layer = operations.step(SMALL, way="forward"), operations.layer(SMALL, way="forward")
    ends = {"vocabulary", "embedding", "loss"}
    assert ends == {o.part for o in step} - {o.part for o in layer}
    inside = [o for o in step if o.part not in (*ends, "norms")]
    assert [o.times for o in inside] == [3 * o.times for o in layer if o.part != "norms"]
    loss = named(operations.step(SMALL, way="forward", fused=False, logits_bytes=8), "loss")
    assert loss.moved == 2 * 8 * 32 * 100


def test_adam_reads_and_writes_28_bytes_or_a_copy_more():
    (half,) = operations.adam(parameters=1000, gradient_bytes=4)
    (full,) = operations.adam(parameters=1000, weight_bytes=4, gradient_bytes=4)
    assert (half.moved, full.moved) == (30_000, 28_000)
