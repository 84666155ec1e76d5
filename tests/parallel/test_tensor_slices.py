"""Blocks cut over the ranks have the gradients of whole ones."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel import tensor_slices
from mathlib.parallel.pipeline import model_chunks
from mathlib.schedule import orders
from mathlib.traffic import volumes

SHAPE = gpt.small(layers=2, width=32, heads=4, context=16, tied=False)
BATCH = 16


def gradients(without: str = "") -> tuple[dict, float]:
    """Those of a cut model, gathered, and bytes sent; `without` names what is switched off."""
    if without:
        kind = getattr(tensor_slices, without)
        way = "forward" if without == "Sum" else "backward"
        same = {"forward": lambda context, x, group: x, "backward": lambda context, x: (x, None)}
        setattr(kind, way, staticmethod(same[way]))
    model = tensor_slices.cut(gpt.GPT(SHAPE).double())
    batch = data.batch(BATCH, SHAPE.context)
    oracle.loss(model, *batch).backward()
    model.zero_grad()
    with wire.tcp() as system:
        oracle.loss(model, *batch).backward()
    return tensor_slices.whole_gradients(model), system.sent


def wanted() -> dict:
    model = gpt.GPT(SHAPE).double()
    oracle.loss(model, *data.batch(BATCH, SHAPE.context)).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def farthest(found: dict) -> float:
    one = wanted()
    assert found.keys() == one.keys()
    return max(oracle.distance([found[name]], one[name]) for name in one)


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_gradient_is_that_of_the_whole_block(ranks):
    for found, sent in launch.run(gradients, ranks):
        assert farthest(found) < oracle.EQUAL
        count = volumes.tensor_parallel(
            SHAPE, tensor=ranks, micro_batch=BATCH, bytes_per_element=8
        ).total
        assert sent == pytest.approx(count, rel=0.05)


@pytest.mark.parametrize("without", ["Sum", "Copy"])
def test_without_one_of_its_sums_they_are_not(without):
    assert farthest(launch.run(gradients, 2, without)[0][0]) > 1e-4


def weights_of_pairs() -> tuple[dict, dict]:
    """Ranks 0 and 1, and 2 and 3, each pair with a model of its own: its slices, joined."""
    pairs = [dist.new_group(pair) for pair in ([0, 1], [2, 3])]
    mine = dist.get_rank() // 2
    model = tensor_slices.cut(gpt.GPT(SHAPE, seed=mine).double(), pairs[mine])
    oracle.loss(model, *data.batch(BATCH, SHAPE.context, mine)).backward()
    return tensor_slices.whole_weights(model), tensor_slices.whole_gradients(model)


def test_groups_of_ranks_cut_each_for_themselves():
    for rank, (weights, slopes) in enumerate(launch.run(weights_of_pairs, 4)):
        one = gpt.GPT(SHAPE, seed=rank // 2).double()
        oracle.loss(one, *data.batch(BATCH, SHAPE.context, rank // 2)).backward()
        assert weights.keys() == slopes.keys() == {name for name, _ in one.named_parameters()}
        for name, p in one.named_parameters():
            assert torch.equal(weights[name], p)
            assert oracle.distance([slopes[name]], p.grad) < oracle.EQUAL


def a_stage() -> tuple[set, float]:
    """The last of two stages, cut: names of its parameters, and how far it is from the whole."""
    schedule = orders.make("1f1b", stages=2, micro_batches=1)
    x = torch.randn(2, SHAPE.context, SHAPE.width, generator=torch.Generator().manual_seed(0))
    one, other = (model_chunks.build(SHAPE, schedule, 1)[1] for _ in range(2))
    made = tensor_slices.cut(other)(x)
    return set(tensor_slices.whole_weights(other)), oracle.distance([made], one(x))


def test_a_stage_of_a_pipeline_is_cut_like_a_model():
    for names, far in launch.run(a_stage, 2):
        assert "blocks.1.mlp.up.weight" in names and "blocks.0.mlp.up.weight" not in names
        assert far < 1e-5


def too_many():
    with pytest.raises(InputError, match="ranks"):
        tensor_slices.cut(gpt.GPT(gpt.small(layers=1, width=32, heads=2, context=16)))


def test_more_ranks_than_heads_are_refused():
    launch.run(too_many, 3)
