"""Stretches of tensors as boxes: every number once, in its place, and few boxes."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mathlib.parallel import boxes

SHAPES = st.lists(st.integers(1, 4), max_size=4)


@given(SHAPES, st.data())
def test_the_boxes_of_a_stretch_hold_its_numbers_in_their_order(shape, data):
    length = math.prod(shape)
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, length))
    numbers, found = torch.arange(length).view(shape), []
    cut = list(boxes.boxes(shape, start, stop))
    for offsets, sizes in cut:
        inside = tuple(slice(a, a + n) for a, n in zip(offsets, sizes, strict=True))
        found += numbers[inside].flatten().tolist()
    assert found == list(range(start, stop))
    assert len(cut) <= max(2 * len(shape) - 1, 1)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_stretch_of_a_row_lies_where_the_parameter_has_it(layout):
    """A row keeps the order of the memory, which need not be that of the dims."""
    p = nn.Parameter(torch.randn(2, 3, 4, 4).to(memory_format=layout))
    row = (
        p.data.permute(0, 2, 3, 1).flatten() if layout == torch.channels_last else p.data.flatten()
    )
    again = torch.zeros_like(p)
    for start, stop in ((0, 5), (5, 61), (61, 96)):
        held = boxes.stretch(p, start, row[start:stop])
        assert held.shape == (2, 3, 4, 4)
        for offsets, view in held.views.items():
            inside = tuple(slice(a, a + n) for a, n in zip(offsets, view.shape, strict=True))
            again[inside] = view
    assert torch.equal(again, p)


def test_views_are_the_rows_own_numbers_and_a_snapshot_is_not():
    row = torch.zeros(6)
    held = boxes.stretch(nn.Parameter(torch.empty(2, 3)), 0, row)
    copy = held.snapshot()
    row += 1
    assert held.views[0, 0].sum() == 6 and copy.views[0, 0].sum() == 0
