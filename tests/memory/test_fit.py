"""Laws of what a step needs at its fullest moment."""

from dataclasses import replace
from itertools import pairwise

import pytest
from architectures import models
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import activations, fit, matrix_states, one_device, precision, states
from mathlib.parts import Parts
from mathlib.specs import Experts, Layout, Model

RECIPES = st.sampled_from([name for name in precision.names() if name != "adafactor"])
SHARDABLE = RECIPES.filter(lambda name: states.per_parameter(name).amount("gradients") > 0)
SMALL = Model("small", layers=8, width=64, heads=8, vocab=512, context=128)


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


def test_a_stage_may_be_named() -> None:
    layout = Layout(pipeline=4, micro_batches=8)
    for i in range(4):
        every = one_device.moments(SMALL, layout, stage=i).values()
        assert fit.training(SMALL, layout, stage=i).total == max(one.total for one in every)
    assert fit.training(SMALL).total == fit.training(SMALL, Layout()).total


def test_a_reserve_is_taken_off_the_room() -> None:
    one, two = (fit.training(SMALL, Layout(micro_batch=b)).total for b in (1, 2))
    assert fit.largest_micro_batch(SMALL, Layout(), two) == 2
    assert fit.largest_micro_batch(SMALL, Layout(), two, reserve=1) == 1
    assert fit.largest_micro_batch(SMALL, Layout(), one) == 1
    assert fit.largest_micro_batch(SMALL, Layout(), one, reserve=1) == 0


def test_verdicts_word_by_word() -> None:
    need = Parts("step", "byte", {"weights": 3 * 2**30, "gradients": 2**30}, binary=True)
    assert str(fit.fits(need, 5 * 2**30)) == "fits: 4 GiB of 5 GiB, 1 GiB free"
    too_much = fit.fits(need, 3 * 2**30)
    assert str(too_much) == "does not fit: 4 GiB of 3 GiB, 1 GiB too much; most of it: weights"
    assert (too_much.needed, too_much.memory) == (2**32, 3 * 2**30)
    assert str(fit.fits(4e9, 3e9)) == "does not fit: 4 GB of 3 GB, 1 GB too much"
    sold = specs.find_device("a100-80gb")
    assert "sold with 74.51 GiB" in str(fit.fits(need, sold))


def test_an_inner_stage_with_experts_may_be_the_fullest() -> None:
    few = SMALL.but(experts=Experts(routed=16, active=1, width=512, dense_layers=2))
    layout = Layout(pipeline=4, micro_batches=4)
    totals = [fit.training(few, layout, stage=i).total for i in range(4)]
    assert totals[1] == max(totals) > max(totals[0], totals[3])
    assert fit.training(few, layout).total == totals[1]


def test_just_enough_is_enough_and_nothing_is_said_of_what_is_sold() -> None:
    assert str(fit.fits(80e9, 80e9)).startswith("fits: 80 GB of 80 GB")
    sold = specs.find_device("mi250x")
    free = sold.memory / 1e9 - 60
    assert str(fit.fits(60e9, sold)) == f"fits: 60 GB of {sold.memory / 1e9:g} GB, {free:g} GB free"


@given(
    models(),
    st.sampled_from([(1, 1), (2, 1), (4, 1), (4, 2)]),
    st.booleans(),
    st.integers(1, 2),
    SHARDABLE,
    st.sampled_from(one_device.OPTIMIZERS),
)
def test_no_zero_stage_needs_more_than_the_one_below(
    model: Model, ranks: tuple[int, int], two: bool, m: int, recipe: str, kind: str
) -> None:
    """But for what is whole for a while beside its own shard: of a gradient in stage 2, of a
    weight in stage 3.
    """
    data, expert = ranks if model.experts and model.experts.routed % ranks[1] == 0 else (4, 1)
    layout = Layout(data, pipeline=1 + (two and model.layers > 1), expert=expert, micro_batches=m)
    how = {"recipe": recipe, "optimizer": kind}
    for i in range(layout.pipeline):
        stages = [
            one_device.moments(model, replace(layout, zero=z), stage=i, **how) for z in range(4)
        ]
        share = stages[3]["update"].amount("weights") / stages[0]["update"].amount("weights")
        for below, above in pairwise(stages):
            for name in above:
                parts = above[name]
                whole = parts.amount("gathered layer") if "gathered layer" in parts else 0
                new = parts.amount("new gradients") if "new gradients" in parts else 0
                assert parts.total <= (below[name].total + share * (whole + new)) * (1 + 1e-12)


def test_experts_are_sharded_wherever_they_have_replicas() -> None:
    """8 tensor ranks hold all of the experts each: ZeRO has replicas of nothing else."""
    split = {"tensor": 8, "expert_tensor": 1, "sequence_parallel": True}
    none, one, three = (Layout(**split, zero=z) for z in (0, 1, 3))
    needs = [fit.training("mixtral-8x7b", layout).total for layout in (none, one, three)]
    experts = states.stage_parameters("mixtral-8x7b", none).amount("experts")
    assert needs[0] - needs[1] == pytest.approx(12 * experts * 7 / 8)
    update = one_device.moments("mixtral-8x7b", three, recipe="adam-fp32")["update"]
    own = states.stage_parameters("mixtral-8x7b", three).total - experts * 7 / 8
    assert update["update"] == pytest.approx(4 * own)
    gathered = one_device.moments("mixtral-8x7b", three)["end of forward"]["gathered layer"]
    assert gathered == 2 * experts / 32, "all of a layer's experts, and nothing that no rank shards"


@given(layouts, RECIPES, st.sampled_from(specs.ATTENTION), st.sampled_from(one_device.LOSSES))
def test_training_is_the_fullest_moment_of_the_fullest_stage(
    layout: Layout, recipe: str, kind: str, loss: str
) -> None:
    how = {"recipe": recipe, "attention": kind, "loss": loss, "buffers": {"context": 1e9}}
    need = fit.training(SMALL, layout, **how)
    assert need.total == pytest.approx(sum(need.amount(name) for name in need))
    assert need["context"] == 1e9
    stages = [one_device.moments(SMALL, layout, stage=i, **how) for i in range(layout.pipeline)]
    every = [one.total for stage in stages for one in stage.values()]
    assert need.total == max(every), "the fullest stage is found without looking at all of them"
    own = states.stage_parameters(SMALL, layout).total
    first = states.model_states(own, recipe=recipe, zero=layout.zero, shard=4)
    for name in ("optimizer states", "master weights", "weights"):
        kept = stages[0]["update"][name] if first.amount(name) else 0
        more = matrix_states.elsewhere(SMALL, layout, 0, recipe) if "states" in name else 0
        assert kept == pytest.approx(first.amount(name) + more)
    update = stages[0]["update"]
    written = sum(update.amount(n) for n in ("gradients", "main gradients") if n in update)
    assert written == pytest.approx(first.amount("gradients"))
    if layout.pipeline == 1:
        everything = activations.stage(SMALL, layout, attention=kind).total
        assert stages[0]["loss"].amount("activations") == pytest.approx(everything)


def test_verdicts_in_words() -> None:
    need = fit.training("llama3-8b", Layout(data=4, zero=1))
    bad, good = (
        fit.fits(need, "a100-80gb"),
        fit.fits(60e9, specs.find_device("a100-80gb"), reserve=2e9),
    )
    assert not bad and str(bad).startswith("does not fit") and "activations" in str(bad)
    assert good and str(good) == (
        "fits: 60 GB of 85.9 GB (as A100 80 GB SXM reports it; sold with 80 GB) less 2 GB left for "
        "the rest, 23.9 GB free"
    )
    assert "does not fit: 90 GB of 85.9 GB (as A100 80 GB" in str(fit.fits(90e9, "a100-80gb"))
    assert "reports" not in fit.fits(60e9, "mi250x").text, "no more is known than what is sold"
    assert fit.fits(82e9, "a100-80gb") and not fit.fits(82e9, 80e9)
    assert fit.fits(80e9, 80e9) and not fit.fits(80e9 + 1, 80e9)


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
        (lambda: fit.training("gpt2", Layout(pipeline=13)), "layers = 12"),
        (lambda: fit.training("gpt2", Layout(tensor=5)), "tensor = 5: does not divide heads = 12"),
        (lambda: fit.training("gtp2"), "did you mean gpt2"),
        (lambda: fit.training("gpt2", stage=1), "stage = 1: expected 0 to 0"),
        (lambda: fit.fits(-1, 1e9), "needed = -1"),
        (lambda: fit.fits(1, "a100"), "memory = 'a100': did you mean"),
        (lambda: fit.fits(1, 1e9, reserve=-1), "reserve = -1"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)


def test_shards_hold_a_layer_and_the_ends_and_alone_a_device_gathers_nothing():
    how = {"tokens": 4096, "recompute": "full"}
    found = fit.sharded("llama3-8b", devices=8, **how)
    layout = Layout(data=8, zero=3, recompute="full")
    held = fit.gathered("llama3-8b")
    ends, layer = held["gathered ends"], held["gathered layer"]
    head = 2 * 128256 * 4096
    assert ends == 2 * head + 2 * 65 * 4096 and layer < head
    more = found.total - fit.training("llama3-8b", layout, tokens=4096).total
    assert more == ends + layer - head, "what ZeRO gathers is the head alone"
    one = fit.sharded("llama3-8b", devices=1, **how)
    assert one.total == fit.training("llama3-8b", Layout(recompute="full"), tokens=4096).total
    tied = fit.gathered("llama3.2-1b")["gathered ends"]
    assert tied < 1.01 * 2 * 128256 * 2048, "one table for both ends"
