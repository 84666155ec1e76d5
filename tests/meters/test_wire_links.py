"""Bytes by receiver, as the system counts them."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire


def messages() -> tuple[int, dict[int, int]]:
    """Every rank sends 1000 (to + 1) numbers to each rank after it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with wire.sent_to() as sent:
        for source in range(rank):
            dist.recv(torch.zeros(1000 * (rank + 1), dtype=torch.float64), source)
        for to in range(rank + 1, ranks):
            dist.send(torch.zeros(1000 * (to + 1), dtype=torch.float64), to)
    return wire.leaving(sent, rank, 2), dict(sent)


def test_each_byte_is_counted_for_the_rank_it_goes_to():
    for rank, (out, sent) in enumerate(launch.run(messages, 4)):
        for to, size in sent.items():
            payload = 8000 * (to + 1) if to > rank else 0
            assert payload <= size <= payload + 500  # gloo's own words
        assert out == pytest.approx(8000 * (3 + 4) if rank < 2 else 0, abs=1000)
