"""Bytes kept for the backward pass: each storage once, and no parameters."""

import torch
from torch import nn

from mathlib.meters import saved


def test_saved_bytes_of_a_linear_layer_is_its_input():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8, requires_grad=True)
    assert saved.saved_bytes(lambda: layer(x).sum(), layer) == 4 * 4 * 8


def test_saved_bytes_need_no_numbers():
    layer, x = nn.Linear(8, 16, device="meta"), torch.randn(4, 8, requires_grad=True, device="meta")
    assert saved.saved_bytes(lambda: layer(x).relu().sum(), layer) == 4 * (4 * 8 + 4 * 16)


def test_two_views_of_one_storage_count_once():
    x = torch.randn(64, requires_grad=True)
    assert saved.saved_bytes(
        lambda: ((x * 2).view(8, 8) ** 2).sum() + 0, nn.Identity()
    ) == saved.saved_bytes(lambda: ((x * 2) ** 2).sum() + 0, nn.Identity())


def test_bytes_of_a_nest_count_each_storage_once():
    x = torch.zeros(4)
    assert (
        saved.tensor_bytes([x, x[:2], {"again": x.view(2, 2), "more": torch.zeros(1)}, None])
        == 16 + 4
    )


def test_parameters_are_left_out_and_a_gradient_free_input_is_not():
    layer = nn.Linear(8, 16)
    x = torch.randn(4, 8)
    assert saved.saved_bytes(lambda: layer(x).sum(), layer) == 4 * 4 * 8
    alone = nn.Identity()
    own = 4 * 8 * 16
    wants = x.clone().requires_grad_()
    assert saved.saved_bytes(lambda: layer(wants).sum(), alone) == 4 * 4 * 8 + own
