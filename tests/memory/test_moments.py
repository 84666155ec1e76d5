"""What is alive at each moment of a step."""

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import activations, fit, moments, states
from mathlib.specs import Experts, Layout, Model

SMALL = Model("small", layers=8, width=64, heads=8, vocab=512, context=128)
MOMENTS = ["end of forward", "loss", "head", "last layer", "first layer", "embedding", "update"]


def test_a_stage_has_the_moments_of_its_ends() -> None:
    layout = Layout(pipeline=4, micro_batches=8)
    said = [list(moments.moments(SMALL, layout, stage=i)) for i in (0, 1, 3)]
    assert list(moments.moments(SMALL)) == MOMENTS
    assert said == [
        [m for m in MOMENTS if m not in ("loss", "head")],
        [m for m in MOMENTS if m not in ("loss", "head", "embedding")],
        [m for m in MOMENTS if m != "embedding"],
    ]


def test_a_plain_loss_holds_three_of_the_logits_and_a_fused_one_a_single() -> None:
    model, n = specs.find_model("llama3-8b"), 8192
    plain, fused = (
        moments.moments(model, Layout(recompute="full"), loss=loss)["loss"]
        for loss in moments.LOSSES
    )
    assert plain.total - fused.total == 2 * 4 * n * 128256
    assert plain["activations"]["head"].total - 2 * 2 * n * 4096 == 4 * n * 128256  # type: ignore[index]
    assert "the loss" in fit.training(model, Layout(recompute="full", micro_batches=2)).title


def test_the_update_by_its_kernels() -> None:
    model = specs.find_model("llama3-8b")
    P = states.stage_parameters(model, Layout()).total
    update = {
        kind: moments.moments(model, Layout(recompute="full"), recipe="adam-fp32", optimizer=kind)[
            "update"
        ].total
        for kind in moments.OPTIMIZERS
    }
    assert update["fused"] == 16 * P
    assert update["foreach"] == 20 * P
    assert update["for-loop"] == 16 * P + 2 * 4 * 128256 * 4096
    own = moments.moments(model, recipe="adam-fp32")["update"]
    assert own.total == update["foreach"] and "foreach optimizer" in own.title
    assert "fused optimizer" in fit.training(model).title, "master weights: no optimizer of torch's"


def test_gradients_live_through_the_forward_where_something_keeps_them() -> None:
    P = states.stage_parameters(SMALL, Layout()).total
    one = moments.moments(SMALL)["end of forward"].total
    for change, more in (
        ({"layout": Layout(micro_batches=2)}, 2 * P),
        ({"accumulation": True}, 2 * P),
        ({"ddp_buckets": "view"}, 2 * P),
        ({"ddp_buckets": "copy"}, 2 * P),
        ({"recipe": "mixed-adam-fp32-gradients"}, 4 * P),
        ({"layout": Layout(micro_batches=2), "accumulation": False}, 0),
    ):
        assert moments.moments(SMALL, **change)["end of forward"].total == one + more, change
    both = moments.moments(SMALL, ddp_buckets="copy")["update"].total
    assert both == moments.moments(SMALL)["update"].total + 2 * P


def test_autocast_keeps_a_copy_of_every_matrix() -> None:
    layer = 12 * SMALL.width**2 + 9 * SMALL.width
    copies = 2 * (SMALL.layers * layer + SMALL.vocab * SMALL.width)
    cast = moments.moments(SMALL, recipe="adam-fp32", autocast=True)
    assert cast["loss"]["cast weights"] == copies
    assert cast["first layer"]["cast weights"] == 2 * layer
    full = moments.moments(SMALL, Layout(recompute="full"), recipe="adam-fp32", autocast=True)
    assert full["end of forward"]["cast weights"] == copies, "they go when autocast ends"
    assert full["loss"]["cast weights"] == 2 * SMALL.vocab * SMALL.width
    assert "cast weights" not in full["first layer"]


def test_recomputing_a_layer_brings_back_what_it_dropped() -> None:
    none, selective, full = (
        moments.moments(SMALL, Layout(recompute=r)) for r in ("none", "selective", "full")
    )
    one = activations.layer(SMALL)
    core = sum(amount for name, amount in one["attention"].items() if name.startswith("softmax"))  # type: ignore[union-attr]
    for moment in ("last layer", "first layer"):
        assert "recomputation" not in none[moment]
        assert selective[moment]["recomputation"] == pytest.approx(core)
        assert full[moment]["recomputation"] == pytest.approx(
            one.total - activations.layer(SMALL, recompute="full").total
        )
    assert full["loss"].total < selective["loss"].total < none["loss"].total


def test_stage_3_gathers_its_largest_piece_and_stage_2_its_gradients() -> None:
    sharded = moments.moments(SMALL, Layout(data=4, zero=3))
    layer = 12 * 64 * 64 + 13 * 64
    assert sharded["last layer"]["gathered layer"] == (2 + 2) * layer
    assert sharded["end of forward"]["gathered layer"] == 2 * layer
    assert moments.moments(SMALL, Layout(data=4, zero=2))["loss"]["gathered layer"] == 2 * layer
    assert "gathered layer" not in sharded["update"]
    assert "gathered layer" not in fit.training(SMALL, Layout(zero=3)), (
        "a group of one has nothing to gather"
    )
    wide = moments.moments(SMALL.but(vocab=50000), Layout(data=4, zero=3))
    assert wide["loss"]["gathered layer"] == 4 * 50000 * 64, "a large vocabulary is the largest"


def test_a_layer_with_experts_and_one_without_are_looked_at_apart() -> None:
    """Every second layer has experts: the fullest backward may be of either kind."""
    few = SMALL.but(experts=Experts(routed=8, active=1, width=512, shared=1, every=2))
    found = moments.moments(few, Layout(recompute="full"))
    ends = ["last layer", "first layer", "last dense layer", "first expert layer"]
    assert list(found)[3:7] == ends
    expert, dense = (sum(states._layer_parameters(few, 1, [i]).values()) for i in (1, 0))
    h = 64
    written = {"experts": 9 * 512 * h, "dense": 2 * 256 * h}
    gradients = {name: found[name].amount("gradients") / 2 for name in ends}
    head = 512 * h
    assert gradients["last dense layer"] - head == expert + written["dense"], "one is done"
    done = 4 * expert + 3 * dense
    assert gradients["first layer"] - head == done + written["dense"]
    assert gradients["first expert layer"] - head == done - expert + written["experts"]
    kept = [found[name]["activations"].amount("layers") for name in ends]  # type: ignore[union-attr]
    one = activations.layer(few, recompute="full").total
    assert kept == [4 * one, one, 4 * one, one]


def test_the_largest_piece_of_mixed_layers_is_one_with_experts() -> None:
    few = SMALL.but(experts=Experts(routed=8, active=1, width=256, every=2), attention_sinks=True)
    experts = states._layer_parameters(few, 1, [1])
    gathered = moments.moments(few, Layout(data=4, zero=3))["end of forward"]["gathered layer"]
    assert experts["sinks"] == few.heads
    assert gathered == 2 * (sum(experts.values()) + 2 * 2 * 64)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_no_stage_is_fuller_than_the_one_that_training_takes(every: int) -> None:
    few = SMALL.but(layers=12, experts=Experts(routed=8, active=2, width=256, every=every))
    layout = Layout(pipeline=4, micro_batches=4)
    stages = [moments.moments(few, layout, stage=i).values() for i in range(4)]
    most = max(one.total for stage in stages for one in stage)
    assert fit.training(few, layout).total == most


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: moments.moments("gpt2", stage=1), "stage = 1: expected 0 to 0"),
        (lambda: moments.moments("gpt2", buffers={"context": -1}), "buffers['context'] = -1"),
        (lambda: moments.moments("gpt2", optimizer="apex"), "optimizer = 'apex'"),
        (lambda: moments.moments("gpt2", loss="liger"), "loss = 'liger'"),
        (lambda: moments.moments("gpt2", ddp_buckets="both"), "ddp_buckets = 'both'"),
        (lambda: moments.moments("gpt2", accumulation=2), "accumulation = 2"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
