"""Copies, shards and what comes and goes, as the formulas and the runs have them."""

import pytest
from charts import boxes, drawn, said, words

from mathlib.show.schemes import zero
from mathlib.traffic import volumes


def test_one_set_of_states_is_no_copy():
    told = said(drawn(zero.copies(7.5e9, 64)))
    assert "64 equal sets of 120 GB" in told
    assert "7.56 TB are copies" in zero.copies(7.5e9, 64)._repr_html_()


def test_shards_are_equal_and_begin_at_their_ranks_place():
    chart = drawn(zero.slices({"a": 12, "b": 20, "c": 5, "d": 1}, 4))
    wide = {w for hint, (_, _, w, _) in boxes(chart).items() if hint.startswith("rank ")}
    assert max(wide) - min(wide) < 0.2
    assert said(chart) == (
        "38 numbers in 4 tensors, 2 of padding, shards of 10: rank 0 from 0, rank 1 from 10, "
        "rank 2 from 20, rank 3 from 30"
    )


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_step_has_a_reduce_scatter_before_the_update_and_an_all_gather_after(ranks):
    written = words(drawn(zero.step(ranks)))
    scatter, gather = written.index("reduce-scatter"), written.index("all-gather")
    assert scatter < written.index("updates it") < gather
    assert written.count("updates it") == ranks


def test_gradients_alive_grow_with_stage_1_and_hardly_with_stage_2():
    told = said(drawn(zero.gradients_leave(4, 4)))
    assert "Stage 1: 1, 2, 3, 4; Stage 2: 1, 1.25, 1.5, 1.75" in told


def test_one_layer_is_whole_at_a_time_or_two_with_prefetch():
    told = said(drawn(zero.layers_come(4, 4)))
    alone, ahead = "1.75, " * 7, "2.5, 2.5, 2.5, 1.75, 2.5, 2.5, 2.5"
    assert f"Gathered when needed: {alone}1.75; With prefetch: {ahead}, 1.75" in told


@pytest.mark.parametrize("m", [1, 3, 8])
def test_as_many_passes_are_drawn_as_the_formula_counts(m):
    told = said(drawn(zero.accumulated(m)))
    for stage in (1, 2, 3):
        how = {"data": 2, "stage": stage, "micro_batches": m}
        passes = volumes.zero(parameters=1, weight_bytes=2, gradient_bytes=2, **how).total
        assert f"stage {stage} {passes:g}" in told
