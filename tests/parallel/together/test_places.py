"""The parts of a parameter, in pieces of any size, fill the whole, each number where it belongs."""

import pytest
import torch
from torch import nn

from mathlib.parallel.tensor.split_tensors import WHOLE, Cut
from mathlib.parallel.together.places import Place

CUTS = {  # how it is cut, shape of the whole, tensor ranks
    "whole": (WHOLE, (4, 6), 2),
    "words": (Cut(0), (7, 3), 3),
    "rows": (Cut(1, 2), (5, 8), 2),
    "queries, keys, values": (Cut(0, 2, 3), (18, 4), 2),
    "their biases": (Cut(0, 2, 3), (18,), 3),
    "heads fewer than ranks": (Cut(0, 2), (4, 3), 4),
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("shards", [1, 2, 5])
def test_pieces_lie_where_the_whole_has_their_numbers(name, shards):
    cut, shape, ranks = CUTS[name]
    whole = torch.arange(float(torch.Size(shape).numel())).view(shape)
    found = torch.full(shape, -1.0)
    for rank in range(ranks):
        place = Place("w", shape, cut, rank, ranks)
        part = nn.Parameter(cut.mine(whole, rank, ranks))
        start = 0
        for piece in part.detach().flatten().tensor_split(shards):
            held = place.held(part, start, piece)
            assert held.shape == shape
            for offsets, view in held.views.items():
                box = tuple(slice(o, o + n) for o, n in zip(offsets, view.shape, strict=True))
                found[box] = view
            start += len(piece)
    assert torch.equal(found, whole)


def test_ranks_with_the_same_numbers_have_the_same_part():
    def parts(name):
        cut, shape, ranks = CUTS[name]
        return [Place("w", shape, cut, rank, ranks).part for rank in range(ranks)]

    assert parts("whole") == [-1, -1] and parts("words") == [0, 2, 4]
    assert parts("heads fewer than ranks") == [0, 0, 1, 1]


def test_first_numbers_are_those_of_the_whole_by_its_name():
    pieces = [
        Place("w", (6, 4), Cut(0), rank, 2).filled(torch.zeros((), dtype=torch.float64), 3)
        for rank in range(2)
    ]
    whole = Place("w", (6, 4), WHOLE, 0, 1).filled(torch.zeros((), dtype=torch.float64), 3)
    assert torch.equal(torch.cat(pieces), whole) and whole.dtype == torch.float64
