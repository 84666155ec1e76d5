"""A row, its pieces, and what a reduce-scatter of them costs."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch
from mathlib.meters import wire
from mathlib.parallel.zero import flat_shards
from mathlib.parallel.zero.flat_shards import FlatShard, Scattering
from mathlib.traffic import comm


def test_a_row_is_padded_and_a_piece_is_a_view_of_it():
    def run():
        layer = nn.Linear(3, 3, bias=False)
        row = FlatShard({layer.weight: "weight"})
        return len(row.row), len(row.shard), layer.weight.data_ptr() == row.row.data_ptr()

    assert launch.run(run, 4) == [(12, 3, True)] * 4


def test_strides_of_a_parameter_survive():
    def run():
        before = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
        p = nn.Parameter(before.clone(memory_format=torch.preserve_format))
        row = FlatShard({p: "p"}, kept=False)
        row.gather()
        return p.stride() == before.stride() and torch.equal(p, before)

    assert launch.run(run, 2) == [True, True]


def reduce_scattered(numbers: int, way: str) -> tuple[int, torch.Tensor]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    row = torch.arange(ranks * numbers, dtype=torch.float32) * (rank + 1)
    piece = torch.empty(numbers)
    with wire.tcp() as counted:
        if way == "ours":
            piece = Scattering(row).wait(torch.float32)
        else:
            dist.reduce_scatter_tensor(piece, row)
    return counted.sent, piece


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_gloos_own_reduce_scatter_sends_twice_as_much(ranks):
    """The system counts both: ours is the formula, up to what heads a message."""
    numbers = 120_000
    wanted = comm.sent("reduce-scatter", payload=4 * ranks * numbers, ranks=ranks)
    ours = launch.run(reduce_scattered, ranks, numbers, "ours")
    gloos = launch.run(reduce_scattered, ranks, numbers, "gloo")
    for (mine, piece), (theirs, same) in zip(ours, gloos, strict=True):
        assert torch.equal(piece, same)
        assert mine == pytest.approx(wanted, rel=0.002)
        assert theirs == pytest.approx(2 * wanted, rel=0.01)


def test_parameters_share_a_row_only_with_their_like():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1).bfloat16())
    c, d = nn.Parameter(torch.ones(1), requires_grad=False), nn.Parameter(torch.ones(2))
    names = {a: "a", b: "b", c: "c", d: "d"}
    assert sorted("".join(row.values()) for row in flat_shards.alike(names)) == ["ad", "b", "c"]
