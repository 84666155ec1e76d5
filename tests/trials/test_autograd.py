"""The studies of the autograd chapter, on steps that can be told by hand."""

import pytest
import torch

from mathlib.meters.arrivals import Event
from mathlib.model import gpt
from mathlib.trials import autograd


def test_a_part_counts_what_it_has_saved_at_once():
    events = [Event("saved", "a", 4), Event("saved", "b", 2), Event("gradient", "a", 9)]
    events += [Event("released", "a", 4), Event("saved", "a", 1)]
    assert (autograd.fullest(events), autograd.fullest(events, "a")) == (6, 4)


def test_a_wrapped_block_counts_as_the_block():
    model = gpt.GPT(autograd.SHAPE)
    model.blocks[0] = torch.nn.Sequential(model.blocks[0])
    wrapper, inner = autograd.parts_of(model)["block 1"]
    assert inner is wrapper[0] and isinstance(inner, gpt.Block)


def test_what_is_left_of_backward_is_counted_as_predicted():
    arrived = autograd.arriving()
    assert arrived[-1][0] == "tokens.weight" and len(arrived) == 40
    for predicted, counted in autograd.to_come(arrived).values():
        assert counted == pytest.approx(predicted, abs=1e-12)


def test_a_bucket_leaves_with_the_gradient_that_fills_it():
    arrived = [("c", 3, 0.9), ("b", 2, 0.5), ("a", 1, 0.0)]
    assert autograd.buckets(arrived, 4) == [(5, 0.5), (1, 0.0)]
    assert autograd.buckets(arrived, 3) == [(3, 0.9), (3, 0.0)]


def test_torchs_last_bucket_is_the_one_that_is_predicted():
    for words, (whole, late) in autograd.late().items():
        sizes = [size for size, _ in autograd.buckets(autograd.arriving(words), autograd.BUCKET)]
        assert (sum(sizes), sizes[-1]) == (whole, late)


def test_an_embedding_comes_last_and_a_head_of_its_own_first():
    (_, tied, *_), (_, untied, *_) = map(autograd.course, ("gpt2", "llama3-8b"))
    assert tied[0] == 0 and untied[0] == pytest.approx(128_256 * 4_096 / 8.03e9, rel=1e-3)
    for name in ("gpt2", "llama3-8b"):
        shares, left = zip(*autograd.course(name), strict=True)
        assert sorted(shares) == list(shares) and sorted(left, reverse=True) == list(left)
        assert (shares[-1], left[-2:]) == (1, (0, 0))


def test_small_graphs_of_the_engine():
    assert autograd.product_of(3) == (2, 4)
    assert autograd.two_uses()["loss = u v"].rows == [[6.0 * 7.0]]
    ones = torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)
    assert autograd.two_layers(ones)["sum of Z"].rows == [[24.0]]


def test_eager_gradients_come_in_between_and_compiled_ones_at_the_end():
    found = {
        how: [dict(nodes)[i] for i in ran]
        for how, (nodes, _, ran) in autograd.eager_and_compiled().items()
    }
    weights = {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert found["eager"].index("2.weight") < found["eager"].index("Relu")
    assert (
        found["compiled"][0] == "CompiledFunctionBackward" and {*found["compiled"][1:]} == weights
    )


def test_leaves_came_last_before_2018():
    visits = {how: " ".join(order) for how, order in autograd.visits().items()}
    assert visits["PyTorch"] == visits["our engine"] == "Y4 W4 Y3 W3 Y2 W2 Y1 W1"
    assert visits["leaves last"] == "Y4 Y3 Y2 Y1 W4 W3 W2 W1"
