"""What a rank holds, by hand; tests/agreement/test_zero.py holds it against real runs."""

import pytest

from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.memory import one_device, states, zero_rank
from mathlib.specs import Layout, Model

SMALL = Model("small", layers=4, width=64, heads=4, vocab=251, context=32, dropout=False)
P = params.count(SMALL).total
LAYER = 12 * 64 * 64 + 13 * 64  # matrices, biases and norms
OUTSIDE = P - 4 * LAYER


def at(name: str, **options) -> dict[str, float]:
    stage = options.pop("zero", 3)
    layout = Layout(data=3, zero=stage, micro_batches=options.pop("micro_batches", 1))
    one = zero_rank.moments(SMALL, layout, recipe="adam-fp32", **options)[name]
    return {part: one.amount(part) for part in one}


def padded(numbers: float) -> int:
    return 3 * -(-numbers // 3)


def test_stage_0_is_what_one_process_has():
    layout = Layout(data=4)
    found = zero_rank.moments(SMALL, layout, recipe="sgd")
    wanted = one_device.moments(SMALL, layout, recipe="sgd")
    assert {n: one.total for n, one in found.items()} == {n: o.total for n, o in wanted.items()}


def test_stage_1_in_one_row_has_it_twice_at_the_end_of_a_step():
    assert at("reduction", zero=1, bucket_bytes=1e9) == {
        "weights": 4 * P,
        "padding": 4 * (padded(P) - P),
        "optimizer states": 8 * padded(P) / 3,
        "gradients": 4 * padded(P) / 3,
        "rows in flight": 2 * 4 * padded(P),
    }
    found = at("update", zero=1, optimizer="for-loop", bucket_bytes=1e9)
    assert found["update"] == 2 * 4 * padded(P) / 3


def test_stage_1_in_buckets_has_hardly_more_than_its_gradients():
    found = at("reduction", zero=1, bucket_bytes=4 * LAYER)
    sent = found["gradients"] + found["rows in flight"]
    assert 4 * P < sent < 4 * (P + 2.5 * LAYER)
    one = at("reduction", zero=1, bucket_bytes=4 * LAYER, in_flight=1)
    more = sum(found.values()) - sum(one.values())
    assert more == 4 * (2 * padded(LAYER) - LAYER)  # the row before, there and arriving


def test_a_reduce_scatter_lets_a_piece_arrive_for_each_row():
    wanted = at("layer 1"), at("layer 1", scatter="reduce-scatter")
    both, one = (found["rows in flight"] for found in wanted)
    assert both == 2 * 2 * 4 * padded(LAYER)
    assert one == both / 2 * (1 + 1 / 3)
    assert {**wanted[0], "rows in flight": one} == wanted[1], "and nothing else"


def test_stage_2_has_two_rows_in_flight():
    found = at("layer 0", zero=2, bucket_bytes=4 * LAYER)
    assert found["weights"] == 4 * P and found["gradients"] < 4 * P / 3
    assert found["rows in flight"] >= 2 * 2 * 4 * LAYER
    one = at("layer 0", zero=2, bucket_bytes=4 * LAYER, in_flight=1)
    assert one["rows in flight"] < found["rows in flight"]


def test_stage_3_has_a_live_and_a_prefetched_layer():
    found = at("layer 1")
    assert found["live layer"] == found["prefetched layers"] == 4 * padded(LAYER)
    assert found["outside the layers"] == 4 * padded(OUTSIDE)
    assert found["weights"] == 4 * (4 * padded(LAYER) + padded(OUTSIDE)) / 3
    assert found["rows in flight"] == 2 * 2 * 4 * padded(LAYER)
    assert "prefetched layers" not in at("layer 1", prefetch=0)
    assert at("layer 2", prefetch=2)["prefetched layers"] == 2 * found["live layer"]
    assert at("layer 1", prefetch=2)["prefetched layers"] == found["live layer"]
    assert "prefetched layers" not in at("layer 0"), "the last one that backward comes to"
    assert "live layer" not in at("update") and "live layer" not in at("end of forward")


def test_a_16_bit_shard_is_kept_if_wanted():
    layout = Layout(data=4, zero=3)
    made, kept = (
        zero_rank.moments(SMALL, layout, recipe="mixed-adam", keep_half=keep)["update"]
        for keep in (False, True)
    )
    assert "weights" not in made
    assert kept.total - made.total == kept["weights"] == pytest.approx(2 * P / 4, rel=1e-3)


@pytest.mark.parametrize("recipe", ["mixed-adam", "mixed-adam-gradient-copies"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_what_lives_from_step_to_step_is_the_papers_share(stage, recipe):
    """Its parts at the update, less padding, for a model that 4 ranks divide."""
    layout = Layout(data=4, zero=stage)
    found = zero_rank.moments(SMALL, layout, recipe=recipe, keep_half=True)["update"]
    wanted = states.model_states(P, recipe=recipe, zero=stage, shard=4)
    for name in ("weights", "master weights", "optimizer states"):
        assert found.amount(name) == pytest.approx(wanted.amount(name), rel=2e-3)


@pytest.mark.parametrize("stage", [2, 3])
def test_accumulation_keeps_the_pieces_through_the_forward(stage):
    once, twice = (at("end of forward", zero=stage, micro_batches=m) for m in (1, 2))
    assert twice["gradients"] == pytest.approx(4 * P / 3, rel=1e-3) and "gradients" not in once


def test_more_ranks_never_need_more():
    for stage in (1, 2, 3):
        needed = [
            zero_rank.peak(SMALL, Layout(data=n, zero=stage), recipe="sgd-momentum").total
            for n in (2, 4, 8, 16)
        ]
        assert needed == sorted(needed, reverse=True)


def test_what_it_does_not_cover_is_refused():
    with pytest.raises(InputError, match="pipeline"):
        zero_rank.moments(SMALL, Layout(pipeline=2, micro_batches=2, zero=1))
    with pytest.raises(InputError, match="autocast"):
        zero_rank.moments(SMALL, Layout(data=2, zero=1), autocast=True)
