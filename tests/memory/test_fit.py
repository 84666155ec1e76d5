"""Laws of what a step needs at its fullest moment."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import activations, fit, precision, states
from mathlib.specs import Layout, Model

RECIPES = st.sampled_from([name for name in precision.names() if name != "adafactor"])
SMALL = Model("small", layers=8, width=64, heads=8, vocab=512, context=128)
MOMENTS = ["end of forward", "loss", "head", "last layer", "first layer", "embedding", "update"]


layouts = st.builds(
    Layout,
    data=st.just(4),
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.sampled_from([1, 2, 4]),
    zero=st.integers(0, 3),
    micro_batch=st.integers(1, 8),
    micro_batches=st.just(8),
    recompute=st.sampled_from(["none", "selective", "full"]),
)


@given(layouts, RECIPES, st.sampled_from(specs.ATTENTION), st.sampled_from(fit.LOSSES))
def test_training_is_the_fullest_moment_of_the_fullest_stage(
    layout: Layout, recipe: str, kind: str, loss: str
) -> None:
    how = {"recipe": recipe, "attention": kind, "loss": loss, "buffers": {"context": 1e9}}
    need = fit.training(SMALL, layout, **how)
    assert need.total == pytest.approx(sum(need.amount(name) for name in need))
    assert need["context"] == 1e9
    stages = [fit.moments(SMALL, layout, stage=i, **how) for i in range(layout.pipeline)]
    every = [one.total for stage in stages for one in stage.values()]
    assert need.total == max(every), "the fullest stage is found without looking at all of them"
    own = states.stage_parameters(SMALL, layout).total
    first = states.model_states(own, recipe=recipe, zero=layout.zero, shard=4)
    for name in ("optimizer states", "master weights", "weights"):
        kept = stages[0]["update"][name] if first.amount(name) else 0
        assert kept == pytest.approx(first.amount(name))
    update = stages[0]["update"]
    written = sum(update.amount(n) for n in ("gradients", "main gradients") if n in update)
    assert written == pytest.approx(first.amount("gradients"))
    if layout.pipeline == 1:
        everything = activations.stage(SMALL, layout, attention=kind).total
        assert stages[0]["loss"].amount("activations") == pytest.approx(everything)


def test_a_stage_has_the_moments_of_its_ends() -> None:
    layout = Layout(pipeline=4, micro_batches=8)
    said = [list(fit.moments(SMALL, layout, stage=i)) for i in (0, 1, 3)]
    assert list(fit.moments(SMALL)) == MOMENTS
    assert said == [
        [m for m in MOMENTS if m not in ("loss", "head")],
        [m for m in MOMENTS if m not in ("loss", "head", "embedding")],
        [m for m in MOMENTS if m != "embedding"],
    ]


def test_a_plain_loss_holds_three_of_the_logits_and_a_fused_one_a_single() -> None:
    model, n = specs.find_model("llama3-8b"), 8192
    plain, fused = (
        fit.moments(model, Layout(recompute="full"), loss=loss)["loss"] for loss in fit.LOSSES
    )
    assert plain.total - fused.total == 2 * 4 * n * 128256
    assert plain["activations"]["head"].total - 2 * 2 * n * 4096 == 4 * n * 128256  # type: ignore[index]
    assert "the loss" in fit.training(model, Layout(recompute="full", micro_batches=2)).title


def test_the_update_by_its_kernels() -> None:
    model = specs.find_model("llama3-8b")
    P = states.stage_parameters(model, Layout()).total
    update = {
        kind: fit.moments(model, Layout(recompute="full"), recipe="adam-fp32", optimizer=kind)[
            "update"
        ].total
        for kind in fit.OPTIMIZERS
    }
    assert update["fused"] == 16 * P
    assert update["foreach"] == 20 * P
    assert update["for-loop"] == 16 * P + 2 * 4 * 128256 * 4096
    own = fit.moments(model, recipe="adam-fp32")["update"]
    assert own.total == update["foreach"] and "foreach optimizer" in own.title
    assert "fused optimizer" in fit.training(model).title, "master weights: no optimizer of torch's"


def test_gradients_live_through_the_forward_where_something_keeps_them() -> None:
    P = states.stage_parameters(SMALL, Layout()).total
    one = fit.moments(SMALL)["end of forward"].total
    for change, more in (
        ({"layout": Layout(micro_batches=2)}, 2 * P),
        ({"accumulation": True}, 2 * P),
        ({"ddp_buckets": "view"}, 2 * P),
        ({"ddp_buckets": "copy"}, 2 * P),
        ({"recipe": "mixed-adam-fp32-gradients"}, 4 * P),
        ({"layout": Layout(micro_batches=2), "accumulation": False}, 0),
    ):
        assert fit.moments(SMALL, **change)["end of forward"].total == one + more, change
    both = fit.moments(SMALL, ddp_buckets="copy")["update"].total
    assert both == fit.moments(SMALL)["update"].total + 2 * P


def test_autocast_keeps_a_copy_of_every_matrix() -> None:
    layer = 12 * SMALL.width**2 + 9 * SMALL.width
    copies = 2 * (SMALL.layers * layer + SMALL.vocab * SMALL.width)
    cast = fit.moments(SMALL, recipe="adam-fp32", autocast=True)
    assert cast["loss"]["cast weights"] == copies
    assert cast["first layer"]["cast weights"] == 2 * layer
    full = fit.moments(SMALL, Layout(recompute="full"), recipe="adam-fp32", autocast=True)
    assert full["end of forward"]["cast weights"] == copies, "they go when autocast ends"
    assert full["loss"]["cast weights"] == 2 * SMALL.vocab * SMALL.width
    assert "cast weights" not in full["first layer"]


def test_recomputing_a_layer_brings_back_what_it_dropped() -> None:
    none, selective, full = (
        fit.moments(SMALL, Layout(recompute=r)) for r in ("none", "selective", "full")
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
    sharded = fit.moments(SMALL, Layout(data=4, zero=3))
    layer = 12 * 64 * 64 + 13 * 64
    assert sharded["last layer"]["gathered layer"] == (2 + 2) * layer
    assert sharded["end of forward"]["gathered layer"] == 2 * layer
    assert fit.moments(SMALL, Layout(data=4, zero=2))["loss"]["gathered layer"] == 2 * layer
    assert "gathered layer" not in sharded["update"]
    assert "gathered layer" not in fit.training(SMALL, Layout(zero=3)), (
        "a group of one has nothing to gather"
    )
    wide = fit.moments(SMALL.but(vocab=50000), Layout(data=4, zero=3))
    assert wide["loss"]["gathered layer"] == 4 * 50000 * 64, "a large vocabulary is the largest"


def test_verdicts_in_words() -> None:
    need = fit.training("llama3-8b", Layout(data=8, zero=1))
    bad, good = (
        fit.fits(need, "a100-80gb"),
        fit.fits(60e9, specs.find_device("a100-80gb"), reserve=2e9),
    )
    assert not bad and str(bad).startswith("does not fit") and "activations" in str(bad)
    assert good and str(good) == "fits: 60 GB of 78 GB, 18 GB free"
    assert fit.fits(80e9, 80e9) and not fit.fits(80e9 + 1, 80e9)


@pytest.mark.parametrize("vary", ["shard", "zero", "tensor", "pipeline", "recompute"])
def test_smallest_is_the_first_that_fits(vary: str) -> None:
    layout = Layout(
        data=8, zero=0 if vary == "zero" else 3, shard=1 if vary == "shard" else 0, micro_batches=8
    )
    every = {
        "shard": [1, 2, 4, 8],
        "zero": [0, 1, 2, 3],
        "tensor": [1, 2, 4, 8],
        "pipeline": [1, 2, 4, 8],
        "recompute": ["none", "selective", "full"],
    }[vary]
    needs = [fit.training(SMALL, replace(layout, **{vary: value})).total for value in every]
    for room in [n * 1.001 for n in needs]:
        wanted = next(value for value, need in zip(every, needs, strict=True) if need <= room)
        assert getattr(fit.smallest(SMALL, layout, room, vary=vary), vary) == wanted
    with pytest.raises(InputError, match="no degree makes small fit"):
        fit.smallest(SMALL, layout, min(needs) * 0.9, vary=vary)


@given(st.floats(1e6, 1e10), st.sampled_from([1, 4]), st.sampled_from(["none", "full"]))
def test_the_largest_micro_batch_fits_and_one_more_does_not(
    room: float, p: int, recompute: str
) -> None:
    layout = Layout(pipeline=p, micro_batches=8, recompute=recompute)
    most = fit.largest_micro_batch(SMALL, layout, room)
    if most:
        assert fit.fits(fit.training(SMALL, replace(layout, micro_batch=most)), room * (1 + 1e-12))
    assert not fit.fits(fit.training(SMALL, replace(layout, micro_batch=most + 1)), room)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: fit.training("gpt2", Layout(pipeline=5)), "layers = 12"),
        (lambda: fit.training("gpt2", Layout(tensor=5)), "tensor = 5: does not divide heads = 12"),
        (lambda: fit.training("gtp2"), "did you mean gpt2"),
        (lambda: fit.training("gpt2", stage=1), "stage = 1: expected 0 to 0"),
        (lambda: fit.training("gpt2", buffers={"context": -1}), "buffers['context'] = -1"),
        (lambda: fit.training("gpt2", optimizer="apex"), "optimizer = 'apex'"),
        (lambda: fit.training("gpt2", loss="liger"), "loss = 'liger'"),
        (lambda: fit.training("gpt2", ddp_buckets="both"), "ddp_buckets = 'both'"),
        (lambda: fit.training("gpt2", accumulation=2), "accumulation = 2"),
        (lambda: fit.fits(-1, 1e9), "needed = -1"),
        (lambda: fit.fits(1, "a100"), "memory = 'a100': did you mean"),
        (lambda: fit.fits(1, 1e9, reserve=-1), "reserve = -1"),
        (lambda: fit.smallest("gpt2", Layout(), 1e9, vary="expert"), "vary = 'expert'"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
