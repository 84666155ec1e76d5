"""The loss over words of many ranks is torch's, with its gradient."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from mathlib import launch
from mathlib.parallel.tensor.split_tensors import share
from mathlib.parallel.tensor.split_words import cross_entropy

WORDS = 11  # which no number of ranks divides


def logits(scale):
    draw = torch.Generator().manual_seed(0)
    return scale * torch.randn(6, WORDS, generator=draw, dtype=torch.float64)


def both(scale, targets):
    """Loss and own gradient, ours and torch's."""
    own = share(WORDS, dist.get_rank(), dist.get_world_size())
    whole = logits(scale).requires_grad_()
    wanted = F.cross_entropy(whole, targets)
    wanted.backward()
    mine = logits(scale)[:, own.start : own.stop].requires_grad_()
    found = cross_entropy(mine, targets, own)
    found.backward()
    return (found - wanted).abs().item(), (mine.grad - whole.grad[:, own]).abs().max().item()


def cases():
    targets, none = torch.tensor([0, 10, 5, -100, 3, -100]), torch.full((6,), -100)
    own = share(WORDS, dist.get_rank(), dist.get_world_size())
    of_none = cross_entropy(logits(1)[:, own.start : own.stop], none, own)
    return both(1, targets) + both(1e4, targets), of_none


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_loss_and_gradient_are_those_of_torch(ranks):
    for far, of_none in launch.run(cases, ranks):
        assert max(far) < 1e-11 and of_none.isnan()
