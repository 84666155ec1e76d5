"""Matmuls in chunks give what one matmul gives, and do not wait before they multiply."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from mathlib import launch
from mathlib.launch import slow_wires
from mathlib.meters import wire
from mathlib.meters.trace import Trace
from mathlib.parallel.tensor import token_rings


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def results():
    r, t = dist.get_rank(), dist.get_world_size()
    x, weights = numbers(0, 2, 3 * t, 4), [numbers(7, 5, 4), numbers(8, 2, 4)]
    own = x.unflatten(1, (t, 3))[:, r]
    with wire.counted() as sent:
        found = token_rings.gather_matmul(own, weights)
    far = [(y - F.linear(x, w)).abs().max() for y, w in zip(found, weights, strict=True)]
    parts = [numbers(10 + other, 2, 3 * t, 4) for other in range(t)]
    scattered = token_rings.matmul_scatter(parts[r], weights[0])
    wanted = F.linear(sum(parts), weights[0]).chunk(t, 1)[r]
    return max(*far, (scattered - wanted).abs().max()).item(), sent.sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_chunks_are_the_whole(ranks):
    for far, sent in launch.run(results, ranks):
        assert far < 1e-12 and sent == (ranks - 1) * 8 * 2 * 3 * 4


def test_a_chunk_is_multiplied_before_the_next_has_arrived():
    def run():
        trace = Trace(dist.get_rank())
        with slow_wires.wires(latency=0.001):
            token_rings.gather_matmul(numbers(0, 1, 2, 4), [numbers(1, 4, 4)], trace=trace)
        return [event.what for event in sorted(trace.events, key=lambda event: event.start)]

    for events in launch.run(run, 3):
        assert events == ["matmul 0", "wait 0", "matmul 1", "wait 1", "matmul 2"]
