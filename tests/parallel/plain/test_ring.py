"""The ring, shown whole: torch's sums, the formula's bytes, and the sturdy ring's."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.parallel import collectives
from mathlib.parallel.plain import ring
from mathlib.traffic import comm

SIZES = [1, 2, 3, 5]
BOTH = {
    "all-reduce": (ring.all_reduce, collectives.ring_all_reduce),
    "reduce-scatter": (ring.reduce_scatter, collectives.ring_reduce_scatter),
    "all-gather": (ring.all_gather, collectives.ring_all_gather),
}


def numbers(length: int) -> torch.Tensor:
    return torch.arange(length, dtype=torch.float64).view(1, -1) * (1 + dist.get_rank()) + 1


def results(all_reduce, length: int) -> dict[str, bool]:
    """Whether each does what torch's sum says; of the gather, with what each rank then brings."""
    r, N = ring.place(None)
    wanted = numbers(length)
    dist.all_reduce(wanted)
    summed, scattered, gathered = numbers(length), numbers(length), wanted.clone()
    all_reduce(summed)
    mine = ring.reduce_scatter(scattered)
    for other, chunk in enumerate(gathered.view(-1).tensor_split(N)):
        chunk.mul_(other == r)  # all but ours are missing
    ring.all_gather(gathered)
    return {
        "sum": torch.equal(summed, wanted),
        "scatter": torch.equal(mine, wanted.view(-1).tensor_split(N)[r]),
        "gather": torch.equal(gathered, wanted),
    }


@pytest.mark.parametrize("ranks", SIZES)
def test_sums_chunks_and_whole_are_those_of_torch(ranks):
    for length in (ranks, 3 * ranks + 1, 7 * ranks - 1):
        for all_reduce in (ring.all_reduce, ring.naive_all_reduce):
            for found in launch.run(results, ranks, all_reduce, length):
                assert all(found.values()), (all_reduce.__name__, length, found)


def test_where_what_arrives_is_lost_the_sum_is_another():
    def lossy():
        pass_on = ring.pass_on
        ring.pass_on = lambda give, take, group: pass_on(give, take, group) or take.zero_()
        return results(ring.all_reduce, 6)

    assert not any(any(found.values()) for found in launch.run(lossy, 3))


def sent(length: int) -> dict[str, list[int]]:
    """Bytes of the plain one and the sturdy one by their programs, and of the plain by the system,
    which adds headers.
    """
    found = {}
    for name, both in BOTH.items():
        both[0](numbers(length))  # connections are opened by the first
        with wire.tcp() as system, wire.counted() as plain:
            both[0](numbers(length))
        with wire.counted() as sturdy:
            both[1](numbers(length))
        found[name] = [plain.sent, sturdy.sent, system.sent - plain.on_wire]
    with wire.counted() as naive:
        ring.naive_all_reduce(numbers(length))
    return found | {"naive": [naive.sent]}


@pytest.mark.parametrize("ranks", SIZES[1:])
def test_bytes_are_those_of_the_formula_and_of_the_sturdy_ring(ranks):
    length = 12 * ranks
    for found in launch.run(sent, ranks, length):
        assert found.pop("naive") == [(ranks - 1) * 8 * length]
        for name, (plain, sturdy, headers) in found.items():
            wanted = comm.sent(name, payload=8 * length, ranks=ranks, algorithm="ring")
            assert plain == sturdy == wanted and headers == 0, name
