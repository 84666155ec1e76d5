"""The loss in pieces: value and gradients are those of the whole; the logits are never there."""

import pytest
import torch
from torch.nn import functional as F

from mathlib.checks import InputError
from mathlib.meters import live
from mathlib.model.chunked_loss import chunked_loss

TOKENS, WIDTH, VOCAB = 64, 16, 31 * 16  # V/h as in Llama 3


def given(dtype=torch.double):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(4, TOKENS // 4, WIDTH, generator=draw).to(dtype).requires_grad_()
    weight = torch.randn(VOCAB, WIDTH, generator=draw).to(dtype).requires_grad_()
    return x, weight, torch.randint(VOCAB, (4, TOKENS // 4), generator=draw)


@pytest.mark.parametrize("pieces", [1, 4, 7, 64])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_it_is_the_loss(pieces, scale):
    found = []
    for pieces_or_whole in (None, pieces):
        x, weight, targets = given()
        if pieces_or_whole:
            loss = chunked_loss(x, weight, targets, pieces=pieces)
        else:
            loss = F.cross_entropy((x @ weight.T).flatten(0, 1), targets.flatten())
        (scale * loss).backward()
        found.append((loss.detach(), x.grad, weight.grad))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def highest(make):
    """The most bytes alive in a forward and a backward, above what was there."""
    x, weight, targets = given(torch.float32)
    with live.LiveMeter() as meter:
        for tensor in (x, weight, targets):
            meter.follow(tensor.detach(), "temporary")
        make(x, weight, targets).backward()
    line = meter.timeline()
    return line.total(line.peak) - line.total(2)


def test_the_logits_are_never_there():
    n, h, V = TOKENS, WIDTH, VOCAB
    whole = highest(lambda x, w, t: F.cross_entropy((x @ w.T).flatten(0, 1), t.flatten()))
    assert whole >= 12 * n * V
    pieces = highest(lambda x, w, t: chunked_loss(x, w, t, pieces=16))
    assert 4 * (2 * n * V / 16 + V * h) <= pieces < 4 * (3 * n * V / 16 + V * h + 2 * n * h)


def test_pieces_are_counted_from_one():
    with pytest.raises(InputError, match="pieces = 0"):
        chunked_loss(*given(), pieces=0)
