"""A tower and a text model, whole and in parts: as large as the formula says, and one function."""

import pytest
import torch
from torch import nn

from mathlib.compute import flops, params, vision
from mathlib.meters import flop
from mathlib.model.seeing import Seeing
from mathlib.specs import find_model

TOWER = vision.Tower(layers=3, width=24, heads=3, ffn_width=96, image=16, patch=4)
TEXT = find_model("llama3-8b").but(
    **{"name": "small", "layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "head_dim": 8},
    **{"ffn_width": 64, "vocab": 50, "context": 24},
)
ALL = TOWER.layers + TEXT.layers


def batch(many=2):
    torch.manual_seed(0)
    return torch.randn(many, 3, 16, 16), torch.randint(50, (many, TEXT.context))


@pytest.mark.parametrize("more", [{}, {"final_norm": True, "class_token": False}])
def test_parameters_and_flop_are_the_formulas(more):
    tower = vision.Tower(**{**vars(TOWER), **more})
    net, (images, tokens) = Seeing(tower, TEXT), batch()
    own = vision.tower_parameters(tower, text_width=TEXT.width).total
    assert sum(p.numel() for p in net.parameters()) == own + params.total(TEXT)
    with flop.FlopMeter(net) as meter:
        net(images, tokens)
    told = vision.tower_flops(tower, text_width=TEXT.width, images=2).total
    assert meter.parts.total() == told + flops.forward(TEXT, sequences=2).total


def test_parts_in_a_row_are_the_whole():
    whole, (images, tokens) = Seeing(TOWER, TEXT, seed=3), batch()
    for first in range(1, ALL):
        parts = [Seeing(TOWER, TEXT, of, seed=3) for of in (range(first), range(first, ALL))]
        assert torch.equal(parts[1](parts[0](images, tokens), tokens), whole(images, tokens))
        names = [name for part in parts for name, _ in part.named_parameters()]
        assert sorted(names) == sorted(name for name, _ in whole.named_parameters())


def test_patches_see_each_other_words_see_what_is_before_them():
    net, (images, tokens) = Seeing(TOWER, TEXT), batch()
    nn.init.normal_(net.head.weight)
    plain, other = net(images, tokens), images.clone()
    other[:, :, -1, -1] += 1  # the last patch
    assert not torch.equal(net(other, tokens)[:, 0], plain[:, 0]), "no mask in the tower"
    tokens = tokens.clone()
    tokens[:, -1] = (tokens[:, -1] + 1) % 50
    changed = (net(images, tokens) != plain).any(-1).any(0)
    assert changed.nonzero().flatten().tolist() == [TEXT.context - 1]
    tokens[:, : TOWER.patches] = 0
    assert torch.equal(net(images, tokens)[:, :-1], plain[:, :-1]), "places of patches do not count"
