"""One message: pieces of a tensor, sent and received in their place."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.parallel import messages


@pytest.mark.parametrize("n", [3, 5])
def test_pieces_differ_by_one_element_at_most(n):
    lengths = [len(piece) for piece in messages.chunks(torch.zeros(n + 1), n)]
    assert lengths == [2] + [1] * (n - 1)


def round_a_pair() -> list[float]:
    """Both send before they wait; an empty piece is no message."""
    other, room = 1 - dist.get_rank(), torch.zeros(3)
    first, rest = messages.chunks(room, 2)
    mine = torch.full((2,), float(dist.get_rank()))
    empty = torch.zeros(0)
    assert messages.send(empty, other, None) is messages.receive(empty, other, None)
    messages.finish(messages.send(mine, other, None), messages.receive(first, other, None))
    return room.tolist()


def test_a_piece_is_received_in_its_place():
    assert launch.run(round_a_pair, 2) == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_a_rank_is_that_of_its_group():
    assert launch.run(messages.rank_and_size, 2) == [(0, 2), (1, 2)]
