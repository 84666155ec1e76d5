"""Gather and scatter in stages: the same row, the same sum, and less from node to node."""

import re

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.meters.trace import Trace
from mathlib.parallel.zero.flat_shards import Scattering, all_gather
from mathlib.parallel.zero.hierarchical_gather import (
    StagedGather,
    StagedScatter,
    by_nodes,
    scatter_by_nodes,
)
from mathlib.traffic import hierarchical

LENGTH = 50_000  # numbers of a piece


def gathered(ranks_per_node: int) -> list[tuple[bool, int, int]]:
    """Flat and in stages: is the row whole, bytes to other nodes, bytes inside the node."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    piece = torch.arange(LENGTH) + rank * LENGTH
    found = []
    for how in (all_gather, by_nodes(dist.group.WORLD, ranks_per_node)):
        row = torch.full((ranks * LENGTH,), -1)
        with wire.sent_to() as sent:
            how(row, piece, None).wait()
        out = wire.leaving(sent, rank, ranks_per_node)
        found.append(
            (torch.equal(row, torch.arange(ranks * LENGTH)), out, sum(sent.values()) - out)
        )
    return found


@pytest.mark.parametrize(("ranks", "node"), [(4, 2), (6, 3), (8, 2)])
def test_bytes_from_node_to_node_are_the_formula_for_both_ways(ranks, node):
    """Formula beside the system's count: gloo gathers round one ring."""
    by_rank = launch.run(gathered, ranks, node)
    for way, order in enumerate(("ring", "between nodes first")):
        wanted = hierarchical.all_gather(
            payload=8 * ranks * LENGTH, ranks=ranks, ranks_per_node=node, order=order
        )
        for first in range(0, ranks, node):
            whole, out, stayed = zip(*[r[way] for r in by_rank[first : first + node]], strict=True)
            assert all(whole)
            assert sum(out) == pytest.approx(wanted["to other nodes"], rel=0.005)
            assert sum(stayed) == pytest.approx(wanted["inside the node"], rel=0.005)


def test_without_the_second_stage_the_row_is_wrong():
    def run():
        StagedGather.wait = lambda self: self.between.wait()
        return [whole for whole, *_ in gathered(2)]

    assert launch.run(run, 4) == [[True, False]] * 4


def scattered(ranks_per_node: int) -> list[tuple[bool, int, int]]:
    """All-to-all and in stages: is the sum right, bytes to other nodes, bytes inside the node."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    row = torch.arange(ranks * LENGTH) * (rank + 1)
    wanted = torch.arange(rank * LENGTH, (rank + 1) * LENGTH) * (ranks * (ranks + 1) // 2)
    found = []
    for how in (Scattering, scatter_by_nodes(dist.group.WORLD, ranks_per_node)):
        how(row, None).wait(row.dtype)  # connections are made
        with wire.sent_to() as sent:
            piece = how(row, None).wait(row.dtype)
        out = wire.leaving(sent, rank, ranks_per_node)
        found.append((torch.equal(piece, wanted), out, sum(sent.values()) - out))
    return found


@pytest.mark.parametrize(("ranks", "node"), [(4, 2), (6, 3), (8, 2)])
def test_bytes_of_a_scatter_are_the_formula_for_both_ways(ranks, node):
    """To the byte, with gloo's 144 for each message between two ranks."""
    by_rank = launch.run(scattered, ranks, node)
    messages = (node * (ranks - node), node * (ranks // node - 1))  # that leave a node
    neighbours = node * (node - 1)
    for way, order in enumerate(("all-to-all", "inside nodes first")):
        wanted = hierarchical.reduce_scatter(
            payload=8 * ranks * LENGTH, ranks=ranks, ranks_per_node=node, order=order
        )
        for first in range(0, ranks, node):
            right, out, stayed = zip(*[r[way] for r in by_rank[first : first + node]], strict=True)
            assert all(right)
            assert sum(out) == wanted["to other nodes"] + 144 * messages[way]
            assert sum(stayed) == wanted["inside the node"] + 144 * neighbours


def test_without_the_stage_between_nodes_the_sum_is_wrong():
    def run():
        def own_node_only(self, dtype):
            mine = self.inside.wait(dtype).view(dist.get_world_size(self.across), -1)
            return mine[dist.get_rank(self.across)]

        StagedScatter.wait = own_node_only
        return [right for right, *_ in scattered(2)]

    assert launch.run(run, 4) == [[True, False]] * 4


def test_sixteen_bits_travel_as_sixteen_bits_and_are_rounded_twice():
    def run():
        row = torch.full((8,), [1.0, 2.0**-8, 2.0**-8, 0.0][dist.get_rank()], dtype=torch.bfloat16)
        staged = scatter_by_nodes(dist.group.WORLD, 2)
        pieces = [how(row, None).wait(torch.float32) for how in (Scattering, staged)]
        return [(piece.dtype, piece[0].item()) for piece in pieces]

    for flat, staged in launch.run(run, 4):
        assert flat == (torch.float32, 1 + 2.0**-7)
        assert staged == (torch.float32, 1 + 2.0**-8)


def test_the_trace_tells_the_stages_apart():
    def run():
        rank, trace = dist.get_rank(), Trace(dist.get_rank())
        row, piece = torch.zeros(12), torch.full((3,), float(rank))
        by_nodes(dist.group.WORLD, 2)(row, piece, None, what="all-gather of x", trace=trace).wait()
        return [(e.what, e.bytes) for e in trace.events if e.kind == "communication"]

    between = ("all-gather of x, between nodes", 24)
    inside = ("all-gather of x, inside the node", 24)
    for found in launch.run(run, 4):
        assert sorted(found) == [between, inside, inside]


def test_one_node_gathers_as_ever_and_nodes_that_do_not_fit_are_refused():
    def run():
        same = by_nodes(dist.group.WORLD, 8) is by_nodes(dist.group.WORLD, 1) is all_gather
        same = same and scatter_by_nodes(dist.group.WORLD, 8) is Scattering
        with pytest.raises(InputError) as refused:
            by_nodes(dist.group.WORLD, 2)
        return same, str(refused.value)

    ((same, said), *_) = launch.run(run, 3)
    assert same and re.search("ranks_per_node = 2: .* divisor of the sharding group's 3", said)
