"""Dropout on any degree is that of one process, and where it should be alike or unlike it is."""

from functools import partial

import pytest
import tensor_cases
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.checks import InputError
from mathlib.memory import activations
from mathlib.meters import live
from mathlib.model import gpt, oracle
from mathlib.parallel.tensor import dropout_masks
from mathlib.parallel.tensor.tensor_parallel import TensorParallel
from mathlib.specs import Layout

SHAPE, B = gpt.small(**tensor_cases.ODD | {"vocab": 60}), 4
WAYS = {
    "tensor": {},
    "sequence": {"sequence_parallel": True},
    "recomputed": {"recompute": "full"},
    "without": {"dropout": 0.0},
}


def trained(way):
    """Losses, and joined weights after two steps, with dropout."""
    options = {"dropout": 0.3} | WAYS[way]
    torch.manual_seed(5)
    model = gpt.GPT(SHAPE, recompute=options.pop("recompute", "none")).double()
    model, losses = TensorParallel(model, **options), []
    made = oracle.OPTIMIZERS["SGD"](model.parameters())
    for step in range(2):
        made.zero_grad()
        loss = model.loss(*(t % 60 for t in tensor_cases.tokens(step)))
        loss.backward()
        made.step()
        losses.append(loss.item())
    return torch.tensor(losses), torch.cat([p.flatten() for p in model.whole_weights().values()])


def far(found, wanted):
    return max((a - b).abs().max().item() for a, b in zip(found, wanted, strict=True))


def test_every_degree_drops_what_one_process_drops():
    def run():
        return {way: trained(way) for way in WAYS}

    one = launch.run(run, 1)[0]
    assert far(one["tensor"], one["without"]) > 1e-3
    for ranks in (2, 4):
        for found in launch.run(run, ranks):
            for way in ("tensor", "sequence", "recomputed"):
                assert far(found[way], one["tensor"]) < oracle.EQUAL, (ranks, way)


def test_unlike_where_it_should_be_alike_or_alike_where_it_should_be_unlike_is_seen():
    def run():
        real, found = dropout_masks.next_seed, []
        dropout_masks.next_seed = lambda: real() + dist.get_rank()
        found.append(trained("tensor"))
        dropout_masks.next_seed, heads = real, dropout_masks.by_heads
        dropout_masks.by_heads = lambda x, p, own: heads(x, p, range(len(own)))
        return [*found, trained("tensor")]

    one = launch.run(lambda: trained("tensor"), 1)[0]
    for unlike, alike in launch.run(run, 2):
        assert far(unlike, one) > 1e-5 and far(alike, one) > 1e-5


def kept_and_refused():
    torch.manual_seed(5 + dist.get_rank())
    with pytest.raises(InputError, match="= 5, 6 on the ranks: expected one"):
        TensorParallel(gpt.GPT(SHAPE), dropout=0.1)
    torch.manual_seed(5)
    with pytest.raises(InputError, match=r"dropout = 0.1: expected 0, or a GPT with plain"):
        TensorParallel(gpt.GPT(SHAPE, "flash"), dropout=0.1)
    with pytest.raises(InputError, match="dropout = 1.0: expected less than 1"):
        TensorParallel(gpt.GPT(SHAPE), dropout=1.0)
    held = []
    for split in (False, True):
        model = TensorParallel(gpt.GPT(SHAPE), dropout=0.1, sequence_parallel=split)
        batch = [t[:B] % 60 for t in tensor_cases.tokens(0)]
        held.append(live.held_bytes(partial(model.loss, *batch), model, *batch))
    return held


def test_masks_are_kept_as_the_formula_says_and_wrong_ways_refused():
    """A layer keeps 34 + 5 a s/h, and its third term and what sequence parallelism makes of it."""
    masks = 3 * B * tensor_cases.TOKENS + 4  # of words and targets: test_split_matrices
    for split, *each in zip((False, True), *launch.run(kept_and_refused, 2), strict=True):
        layout = Layout(tensor=2, micro_batch=B, sequence_parallel=split)
        how = {"bytes_per_element": 4, "small_tensors": True, "dropout": True}
        assert min(each) == activations.stage(SHAPE, layout, **how).total + masks
