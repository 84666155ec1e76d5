"""What PyTorch's autograd is asked, where the answer is known."""

import math

import torch

from mathlib.trials import autograd_torch as asked


def test_slopes_of_what_has_them():
    assert asked.slopes_at_zero(lambda x: 3 * x) == (3, 6)
    assert asked.slopes_at_zero(torch.relu) == (0, 0)


def test_only_what_cannot_be_differentiated_is_refused():
    assert asked.refusal(asked.leaf().exp()) == ""
    assert "inplace" in asked.refusal(asked.changed_in_place())
    value, gradient = asked.overflowing_branch()
    assert value == 100 and math.isnan(gradient)


def test_runs_share_leaves_and_what_is_carried_over():
    assert asked.in_common() == (10, 4, 4) and asked.sizes() == (10, 5)
    assert asked.carried_over(detach=False) and not asked.carried_over(detach=True)


def test_only_leaves_that_are_used_have_a_gradient_and_it_adds_up():
    none = {"unused leaf": None, "middle": None, "data": None}
    assert asked.left_in_grad() == {"leaf": 24, **none}
    assert asked.left_in_grad(2, retain=True) == {"leaf": 48, **none, "middle": 24}


def test_backward_runs_what_is_there_and_makes_nodes_only_if_told():
    assert asked.run_by_backward() == (10, 4, True)
    assert asked.nodes_made(lambda: asked.leaf() * 2 + 1) == (2, 0)
    made = asked.made_by_backward()
    assert made.pop("plain") == 0 < min(made.values())


def test_the_graph_keeps_what_a_pull_reads():
    assert asked.behind(torch.neg) == ["NegBackward", "AccumulateGrad"]
    assert not asked.middle_outlives_its_name()
    assert (asked.kept_for(torch.exp), asked.kept_for(torch.neg)) == (24, 0)
    for make in asked.WITHOUT_NODE.values():
        assert asked.behind(make) == ["MulBackward", "AccumulateGrad"]


def test_only_the_newer_checkpoint_trains_blocks_on_data():
    assert asked.trained(use_reentrant=True) == 0 and asked.trained(use_reentrant=False) == 3
