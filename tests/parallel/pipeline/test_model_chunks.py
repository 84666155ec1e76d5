"""The chunks in a row are the model: same names, same numbers, same function."""

import pipelines
import pytest
import torch

from mathlib.checks import InputError
from mathlib.model import gpt, modern
from mathlib.parallel.pipeline import model_chunks
from mathlib.schedule import orders
from mathlib.specs import find_model


def modern_shape(tied):
    """A Llama as small."""
    sizes = {**pipelines.SHAPE, "padded_vocab": pipelines.SHAPE["vocab"], "head_dim": 4}
    return find_model("llama3-8b").but(**sizes, layers=4, kv_heads=2, ffn_width=24, tied=tied)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("order", ["1f1b", "interleaved", "zb-v"])
def test_chunks_in_a_row_are_the_model(order, tied):
    model = pipelines.shape(tied=tied) if order != "interleaved" else modern_shape(tied)
    schedule = orders.make(order, stages=2, micro_batches=4)
    stages = [model_chunks.build(model, schedule, stage, seed=3) for stage in range(2)]
    whole = (gpt.GPT if model.positions == "learned" else modern.Modern)(model, seed=3)
    x = tokens = pipelines.batch(0)[0]
    for c in range(schedule.model_chunks):
        x = stages[schedule.stage_of(0, c)][c](x)
    assert torch.equal(x, whole(tokens))
    found = {}
    for chunks in stages:
        found |= model_chunks.named(chunks)
    wanted = dict(whole.named_parameters())
    assert set(found) == set(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_both_ends_on_one_stage_share_the_tied_matrix():
    schedule = orders.make("zb-v", stages=2, micro_batches=4)
    chunks = model_chunks.build(pipelines.shape(), schedule, 0)
    assert chunks[3].head.weight is chunks[0].tokens.weight
    chunks = model_chunks.build(pipelines.shape(tied=False), schedule, 0)
    assert chunks[3].head.weight is not chunks[0].tokens.weight


def test_recomputation_changes_nothing():
    model, tokens = pipelines.shape(), pipelines.batch(0)[0]
    schedule = orders.make("gpipe", stages=1, micro_batches=1)
    results = []
    for recompute in ("none", "selective", "full"):
        chunk = model_chunks.build(model, schedule, 0, recompute=recompute)[0]
        chunk(tokens).sum().backward()
        results.append([p.grad for p in chunk.parameters()])
    for gradients in zip(*results, strict=True):
        assert all(torch.equal(gradients[0], other) for other in gradients[1:])


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ([[0, 1], [], [2, 3]], "chunk 1 has no layer"),
        ([[0, 1], [2, 3]], "a list for each of 3 chunks"),
        ([[0], [2, 1], [3]], "expected 0 to 3, in their order"),
        ([[0], [1], [2]], "expected 0 to 3, in their order"),
        (None, "layers = 4: pipeline . chunks = 3 does not divide it"),
    ],
)
def test_layers_that_make_no_model_are_refused(layers, said):
    with pytest.raises(InputError, match=said):
        model_chunks.cut(pipelines.shape(), 3, layers)


def test_a_stage_that_is_none_is_refused():
    schedule = orders.make("gpipe", stages=2, micro_batches=2)
    with pytest.raises(InputError, match="stage = 2"):
        model_chunks.build(pipelines.shape(), schedule, 2)
