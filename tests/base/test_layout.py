"""A layout multiplies out, or is refused by the name of what does not divide."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.architecture import Experts, Model
from mathlib.checks import InputError
from mathlib.layout import (
    Layout,
    chunk_layers,
    expert_degree,
    own_tokens,
    spreads,
    stage_layers,
    stage_sizes,
    tensor_degree,
    uneven_layers,
)

BAD = [-1, math.nan, math.inf, True, "2", None, 2.5]


@pytest.mark.parametrize(
    "field",
    ["data", "tensor", "pipeline", "chunks", "micro_batch", "micro_batches", "shard", "zero"],
)
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_layout_with_a_bad_number_is_refused_by_name(field, value):
    with pytest.raises(InputError, match=field):
        Layout(**{field: value})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"data": 8, "shard": 3}, "shard = 3: does not divide data = 8; accepted: 1, 2, 4, 8"),
        ({"pipeline": 4, "chunks": 2, "micro_batches": 6}, "micro_batches = 6"),
        ({"chunks": 2}, "chunks = 2"),
        ({"recompute": "all"}, "recompute = 'all'"),
        ({"zero": 4}, "zero = 4"),
        ({"sequence_parallel": "no"}, "sequence_parallel"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(changes, named):
    with pytest.raises(InputError, match=re.escape(named)):
        Layout(**changes)


@given(*[st.integers(1, 12)] * 5)
def test_a_layout_multiplies_out(data, tensor, pipeline, micro_batch, micro_batches):
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        micro_batch=micro_batch,
        micro_batches=micro_batches,
    )
    assert layout.world == data * tensor * pipeline and layout.shard == data
    assert layout.sequences == data * micro_batch * micro_batches


def test_layers_must_divide_over_stages_and_chunks():
    layout = Layout(pipeline=4, chunks=2, micro_batches=8)
    assert layout.layers_of_stage(16) == 4
    with pytest.raises(InputError, match="layers = 12: .* 8 does not divide it"):
        layout.layers_of_stage(12)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
def test_every_layer_has_one_stage_and_chunks_follow_each_other(pipeline, chunks, size):
    layers = pipeline * chunks * size
    stages = stage_layers(layers, pipeline, chunks)
    assert sorted(sum(stages, [])) == list(range(layers))
    walk = [stages[i % pipeline][i // pipeline * size :][:size] for i in range(pipeline * chunks)]
    assert sum(walk, []) == list(range(layers)), (
        "a micro-batch meets stage after stage, then the next chunk"
    )
    layout = Layout(pipeline=2, chunks=chunks, micro_batches=2)
    assert layout.layers_of_stage(2 * chunks * size) == chunks * size


def test_layers_to_stages_names_what_is_wrong():
    with pytest.raises(InputError, match="layers = 10: pipeline . chunks = 4 does not divide"):
        stage_layers(10, 4)
    with pytest.raises(InputError, match="first = -1"):
        stage_layers(8, 4, first=-1)


def test_a_tensor_degree_is_refused_by_what_it_does_not_divide():
    model = Model("m", layers=1, width=96, heads=12, kv_heads=4, vocab=8, context=8, ffn_width=96)
    assert [t for t in (1, 2, 4, 12) if tensor_degree(model, t)] == [1, 2, 4, 12]
    for changes, t, named in (
        ({}, 5, "tensor = 5: does not divide heads = 12"),
        ({}, 6, "tensor = 6: neither divides kv_heads = 4"),
        ({"ffn_width": 98}, 4, "tensor = 4: does not divide ffn_width = 98"),
        ({"experts": Experts(4, 2, 98)}, 4, "tensor = 4: does not divide experts.width"),
    ):
        with pytest.raises(InputError, match=named):
            tensor_degree(model.but(**changes), t)


def test_context_and_experts_multiply_out():
    lay = Layout(data=4, tensor=2, context=2, pipeline=3, expert=4)
    assert lay.world == 4 * 2 * 2 * 3 and lay.replicas == lay.shard == 8
    assert lay.sequences == 4 and lay.expert_split == 2 and lay.expert_replicas == 2
    assert lay.expert_shard == 2 and replace(lay, shard=4).expert_shard == 1
    own = Layout(data=4, tensor=2, expert=8, expert_tensor=1, sequence_parallel=True)
    assert own.expert_replicas == 1 and Layout().expert_replicas == 1


MIXTURE = Model(
    "x", layers=2, width=96, heads=12, vocab=100, context=64, experts=Experts(12, 2, 96)
)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"context": 0}, "context = 0"),
        ({"expert": 1.5}, "expert = 1.5"),
        ({"data": 4, "expert": 3}, "expert = 3: does not divide"),
        ({"tensor": 4, "expert_tensor": 3}, "expert_tensor = 3: does not divide tensor = 4"),
        ({"tensor": 4, "expert_tensor": 1}, "expected sequence_parallel = True"),
        ({"data": 2, "context": 2, "shard": 3}, "shard = 3: does not divide data * context = 4"),
    ],
)
def test_context_and_experts_that_cannot_be_are_refused(changes, named):
    with pytest.raises(InputError, match=re.escape(named)):
        Layout(**changes)


def test_experts_are_dealt_out_evenly_or_refused():
    assert expert_degree(MIXTURE, Layout(data=4, expert=4)) == 3
    assert expert_degree(MIXTURE.but(experts=None), Layout()) == 0
    with pytest.raises(InputError, match=r"expert = 8: does not divide experts\.routed = 12"):
        expert_degree(MIXTURE, Layout(data=8, expert=8))
    with pytest.raises(InputError, match="x has no experts; expected 1"):
        expert_degree(MIXTURE.but(experts=None), Layout(data=8, expert=8))


def test_a_sequence_is_split_evenly_or_refused():
    assert own_tokens(12, 4) == 3
    with pytest.raises(InputError, match="context = 5: does not divide tokens = 12"):
        own_tokens(12, 5)


def test_the_ends_have_a_layer_fewer_as_llama_3_has_it():
    """arXiv:2407.21783, section 3.3.2: 126 layers in 16 stages, one fewer on the first and the
    last; with a chunk for each layer the first has only the embedding, the last only the loss.
    """
    for chunks in (1, 2, 4, 8):
        stages = uneven_layers(126, 16, chunks)
        assert [len(held) for held in stages] == [7] + [8] * 14 + [7]
        assert sorted(sum(stages, [])) == list(range(126))
    one_each = chunk_layers(126, 16, 8)
    assert one_each[0] == one_each[-1] == 0 and set(one_each[1:-1]) == {1}
    assert [len(held) for held in uneven_layers(61, 16, 2)] == [3] + [4] * 13 + [3] * 2


@given(st.integers(1, 140), st.integers(1, 40), st.integers(1, 9))
def test_stages_differ_by_a_layer_at_most_and_inner_chunks_are_not_empty(layers, pipeline, chunks):
    if not spreads(layers, pipeline, chunks):
        with pytest.raises(InputError):
            chunk_layers(layers, pipeline, chunks)
        return
    sizes, stages = chunk_layers(layers, pipeline, chunks), uneven_layers(layers, pipeline, chunks)
    held = [len(stage) for stage in stages]
    assert sum(sizes) == layers and sorted(sum(stages, [])) == list(range(layers))
    assert max(sizes) - min(sizes) <= 1 and all(sizes[1:-1])
    assert max(held) == -(-layers // pipeline) and min(held) == layers // pipeline
    first, most, last = stage_sizes(layers, pipeline)
    assert (held[0], max(held), held[-1]) == (first, most, last)
    assert first == most or held[1] == most, "the second is the fuller where the first is not"
    if layers % (pipeline * chunks) == 0:
        assert stages == stage_layers(layers, pipeline, chunks)


@pytest.mark.parametrize(
    ("pipeline", "chunks", "told"),
    [
        (20, 1, "pipeline = 20: more than layers = 12"),
        (5, 2, "chunks = 2: does not divide the layers of the fullest stage = 3; accepted: 1, 3"),
        (5, 3, "chunks = 3: of 15 in 5 stages, 3 would have no layer"),
    ],
)
def test_what_would_leave_chunks_empty_or_uneven_is_refused(pipeline, chunks, told):
    with pytest.raises(InputError, match=re.escape(told)):
        chunk_layers(12, pipeline, chunks)
