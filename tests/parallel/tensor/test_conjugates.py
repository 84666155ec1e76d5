"""Each function does forward and backward what its name says."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.parallel.tensor import conjugates


def numbers(rank, tokens):
    """b s h of a rank, and what its gradient will be."""
    draw = torch.Generator().manual_seed(rank)
    return torch.randn(2, 2, tokens, 3, generator=draw, dtype=torch.float64)


def results():
    r, t = dist.get_rank(), dist.get_world_size()
    whole = [numbers(other, 2 * t) for other in range(t)]
    own = [numbers(other, 2) for other in range(t)]
    summed = [sum(x[side] for x in whole) for side in (0, 1)]
    joined = [torch.cat([x[side] for x in own], 1) for side in (0, 1)]
    cases = {
        "all_reduce_forward": (whole[r][0], whole[r][1], summed[0], whole[r][1]),
        "all_reduce_backward": (whole[r][0], whole[r][1], whole[r][0], summed[1]),
        "gather_forward": (own[r][0], whole[r][1], joined[0], summed[1].chunk(t, 1)[r]),
        "scatter_forward": (whole[r][0], own[r][1], summed[0].chunk(t, 1)[r], joined[1]),
        "split_forward": (whole[r][0], own[r][1], whole[r][0].chunk(t, 1)[r], joined[1]),
    }
    far = {}
    for name, (x, dy, wanted_y, wanted_dx) in cases.items():
        x = x.clone().requires_grad_()
        y = getattr(conjugates, name)(x)
        y.backward(dy)
        far[name] = max((y - wanted_y).abs().max().item(), (x.grad - wanted_dx).abs().max().item())
    return far


@pytest.mark.parametrize("ranks", [2, 3])
def test_forward_and_backward(ranks):
    for far in launch.run(results, ranks):
        assert len(far) == 5 and max(far.values()) < 1e-12, far
