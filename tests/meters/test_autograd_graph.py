"""PyTorch's graph as we read it: every node once, every use of it an edge."""

import pytest
import torch
from torch import nn

from mathlib.checks import InputError
from mathlib.meters import autograd_graph


def test_a_value_used_twice_is_one_node_with_two_edges():
    x = torch.ones(3, requires_grad=True)
    nodes, edges = autograd_graph.walk((x * x).sum())
    assert nodes == [(0, "Sum"), (1, "Mul"), (2, "leaf")] and edges == [(0, 1), (1, 2), (1, 2)]


def test_leaves_carry_the_names_of_parameters_and_data_is_left_out():
    layer = nn.Linear(3, 2)
    nodes, _ = autograd_graph.walk(layer(torch.ones(4, 3)).sum(), layer)
    assert {name for _, name in nodes} >= {"weight", "bias"} and "leaf" not in dict(nodes).values()


def test_kinds_are_counted():
    x = torch.ones(3, requires_grad=True)
    assert autograd_graph.kinds((x * x * x).sum()) == {"Sum": 1, "Mul": 2, "leaf": 1}


def test_a_result_without_a_graph_is_refused():
    with pytest.raises(InputError, match="result was made by no operation that is recorded"):
        autograd_graph.walk(torch.ones(3))
