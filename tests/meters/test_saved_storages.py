"""The most bytes of all storages: views once, what is released no more, what is resized anew."""

import torch
from torch import nn

from mathlib.meters.saved import Storages

SIZE = 4_000  # bytes


def test_it_counts_weights_and_what_is_alive_at_once():
    model = nn.Linear(10, 10, bias=False)
    with Storages(model) as found:
        one = torch.ones(1000)
        one.view(10, 100)  # the same storage
        assert found.peak == 400 + SIZE
        del one
        two = torch.ones(1000)
    assert found.peak == 400 + SIZE and len(two) == 1000


def test_a_storage_that_comes_again_counts_again():
    model = nn.Linear(1, 1, bias=False)
    with Storages(model) as found:
        row = torch.ones(1000)
        row.untyped_storage().resize_(0)
        other = torch.ones(500)
        assert found.peak == 4 + SIZE
        row.untyped_storage().resize_(SIZE)
        other.add(1)
    assert found.peak == 4 + SIZE + SIZE // 2 + SIZE // 2


def test_an_address_that_comes_again_is_another_storage():
    with Storages(nn.Linear(1, 1)) as found:  # released at once
        rows = [torch.ones(1000) for _ in range(10)]
    assert found.peak == 10 * SIZE == sum(row.nbytes for row in rows)
