"""Shampoo's blocks and roots; by ranks it is tried beside Muon."""

from functools import partial

import torch

from mathlib import specs
from mathlib.memory import matrix_states
from mathlib.meters import saved
from mathlib.model import llama
from mathlib.parallel.plain import muon, shampoo

SHAPE = specs.find_model("llama3-8b").but(
    **{"name": "small", "layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "head_dim": 4},
    **{"vocab": 60, "context": 8, "ffn_width": 40},
)


def test_an_update_is_that_of_the_inverse_fourth_roots():
    weight = torch.nn.Parameter(torch.zeros(5, 3, dtype=torch.double))
    weight.grad = G = torch.randn(5, 3, dtype=torch.double)
    shampoo.Shampoo([weight], lr=1, start=1).step()
    left, right = torch.eye(5) + G @ G.T, torch.eye(3) + G.T @ G
    L, R = shampoo.root(left), shampoo.root(right)
    assert torch.allclose(L @ L @ L @ L @ left, torch.eye(5).double())
    assert torch.allclose(weight.detach(), -L @ G @ R)


def test_blocks_of_a_matrix_have_factors_of_their_own():
    told = matrix_states.shampoo(SHAPE, block=24, dtype="fp64")
    model = llama.Llama(SHAPE).double()
    both = muon.Both(
        list(model.parameters()), model.blocks, partial(shampoo.Shampoo, block=24), torch.optim.Adam
    )
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    both.step()
    whole = matrix_states.shampoo(SHAPE, dtype="fp64").total
    assert saved.tensor_bytes(list(both.parts[0].state.values())) == told.total - told.amount(
        "moments of the rest"
    )
    assert told.total < whole
