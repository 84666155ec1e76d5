"""A part of an expert: columns of two matrices, rows of the third."""

import torch

from mathlib.model import modern
from mathlib.parallel.experts import expert_layer


def test_parts_of_an_expert_add_up_to_it_each_with_1_of_t_of_its_numbers():
    whole, x = modern.Gated(10, 12).double(), torch.randn(5, 10, dtype=torch.float64)
    wanted, size = whole(x), sum(p.numel() for p in whole.parameters())
    given = whole.state_dict()
    total = torch.zeros_like(wanted)
    for rank in range(3):
        one = modern.Gated(10, 12).double()
        one.load_state_dict(given)
        part = expert_layer.part(one, rank, 3)
        assert part.gate.weight.shape == (4, 10) and part.down.weight.shape == (10, 4)
        assert sum(p.numel() for p in part.parameters()) == size // 3
        total += part(x)
    assert torch.allclose(total, wanted)
