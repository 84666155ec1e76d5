"""Every collective against torch.distributed's, and what each sends to whom."""

import math

import pytest
import torch
import torch.distributed as dist
from ways_to_sum import ALL_REDUCE

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.parallel import collectives as own
from mathlib.traffic import comm, mesh

SIZES = [1, 2, 3, 5]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def numbers(length: int, dtype: torch.dtype, rank: int) -> torch.Tensor:
    """Small whole numbers, whose sum every type holds exactly: any order of summation must give the
    same.
    """
    return ((torch.arange(length) * 5 + 3 * rank) % 7 - 3).to(dtype)


def shapes(n: int) -> list[tuple[int, ...]]:
    return [(0,), (1,), (n - 1,), (n,), (n + 1,), (3, 5, 7), (64 * n,)]


def agree_with_torch() -> None:
    rank, n = own.rank_and_size()
    cases = [(torch.float32, shape) for shape in shapes(n)] + [
        (dtype, (3, n + 1)) for dtype in FLOATS
    ]
    for name, (all_reduce, _) in ALL_REDUCE.items():
        for dtype, shape in cases:
            mine = numbers(torch.Size(shape).numel(), dtype, rank).view(shape)
            theirs = mine.clone()
            all_reduce(mine)
            dist.all_reduce(theirs)
            assert torch.equal(mine, theirs), (name, dtype, shape)


@pytest.mark.parametrize("n", [*SIZES, 4, 8])
def test_all_reduce_gives_what_torch_gives(n):
    launch.run(agree_with_torch, n)


def receivers(length: int) -> dict[str, dict[int, int]]:
    found = {}
    for name, (all_reduce, _) in ALL_REDUCE.items():
        with wire.counted() as counted:
            all_reduce(torch.ones(length))
        found[name] = dict(counted.to)
    return found


def test_what_leaves_a_node_depends_on_who_comes_first():
    """Of 8 ranks in nodes of 4: the nearest first lets only its smallest messages out."""
    length = 840
    ranks = launch.run(receivers, 8, length)

    def between(name: str) -> float:
        return sum(
            amount
            for rank, to in enumerate(ranks)
            for other, amount in to[name].items()
            if rank // 4 != other // 4
        ) / (4 * length)

    assert between("halving-doubling") == pytest.approx(2)
    assert between("ring") == pytest.approx(3.5)


def test_the_largest_message_goes_to_the_nearest_rank_first():
    def order() -> list[tuple[int, int]]:
        said: list[tuple[int, int]] = []
        begin = own.send
        own.send = lambda piece, to, group: (
            said.append((to, piece.numel())) or begin(piece, to, group)
        )
        own.halving_doubling_all_reduce(torch.ones(8))
        return said

    assert launch.run(order, 8)[0] == [(1, 4), (2, 2), (4, 1), (4, 1), (2, 2), (1, 4)]


def who_sends_to_whom() -> dict[int, int]:
    with wire.counted() as counted:
        own.halving_doubling_all_reduce(torch.ones(8))
    return dict(counted.to)


def test_ranks_beyond_a_power_of_two_give_their_tensor_to_a_neighbour():
    """Of six, ranks 0 and 2 give it to 1 and 3, as in MPICH; 1, 3, 4 and 5 go on as four."""
    K = 8 * 4
    assert launch.run(who_sends_to_whom, 6) == [
        {1: K},
        {0: K, 3: K, 4: K // 2},  # half of it to the nearest, a quarter to the next, and back
        {3: K},
        {2: K, 1: K, 5: K // 2},
        {5: K, 1: K // 2},
        {4: K, 3: K // 2},
    ]


def shorter_than_ranks() -> dict[str, tuple[int, int]]:
    messages = {}
    for name, (all_reduce, _) in ALL_REDUCE.items():
        with wire.counted() as counted:
            all_reduce(torch.ones(2))
        messages[name] = counted.messages, counted.calls["recv_"]
    return messages


def test_an_empty_piece_costs_no_message():
    ranks = launch.run(shorter_than_ranks, 4)
    rings = 2 * 3 * 2  # each of two elements goes over three links, twice
    expected = {
        "ring": rings,
        "tree": 6,
        "halving-doubling": 4 + 4 + 4,
    }
    for side in range(2):  # what nobody sends, nobody waits for
        assert {
            name: sum(messages[name][side] for messages in ranks) for name in ALL_REDUCE
        } == expected


def order_of_messages(all_reduce) -> list[str]:
    said: list[str] = []
    begin = {name: getattr(own, name) for name in ("send", "receive")}
    for name in begin:
        setattr(own, name, lambda *message, name=name: said.append(name) or begin[name](*message))
    all_reduce(torch.ones(12))
    return said


def test_a_ring_expects_everything_before_it_sends_anything():
    assert (
        launch.run(order_of_messages, 3, own.ring_all_reduce)
        == [["receive"] * 4 + ["send"] * 4] * 3
    )


def unfinished() -> list[str]:
    """What begins a message and does not wait for it."""
    left: list[str] = []
    rank, n = own.rank_and_size()

    class Waited:
        def __init__(self, message):
            self.message = message
            left.append(name)

        def wait(self) -> None:
            self.message.wait()
            left.remove(name)

    for way in ("send", "receive"):
        begin = getattr(own, way)
        setattr(own, way, lambda *message, begin=begin: Waited(begin(*message)))
    deals = {
        "all-to-all": lambda x: own.all_to_all(list(torch.empty(n, 4)), list(x.view(n, 4))),
        "reduce-scatter": own.ring_reduce_scatter,
        "all-gather": own.ring_all_gather,
    }
    for name, does in ({k: f for k, (f, _) in ALL_REDUCE.items()} | deals).items():  # noqa: B007
        does(torch.ones(4 * n))
    return left


@pytest.mark.parametrize("n", [3, 4])
def test_every_message_is_waited_for(n):
    """Else the tensor could be written while it still leaves."""
    assert launch.run(unfinished, n) == [[]] * n


def rounding() -> dict[tuple[str, torch.dtype], torch.Tensor]:
    results = {}
    for name, (all_reduce, _) in ALL_REDUCE.items():
        for dtype in FLOATS:
            x = torch.randn(
                1000, generator=torch.Generator().manual_seed(own.rank_and_size()[0])
            ).to(dtype)
            exact = x.double()
            dist.all_reduce(exact)
            all_reduce(x)
            torch.testing.assert_close(x.double(), exact, rtol=0, atol=32 * torch.finfo(dtype).eps)
            results[name, dtype] = x
    return results


def test_all_ranks_hold_the_same_bits():
    """Rounding depends on the order of summation, but each sum is formed on one rank: all get the
    same.
    """
    first, *others = launch.run(rounding, 5)
    for key, x in first.items():
        assert all(torch.equal(x, other[key]) for other in others), key
    ring, tree = first["ring", torch.float32], first["tree", torch.float32]
    assert not torch.equal(ring, tree), "orders of summation differ, and so do roundings"


def halves() -> None:
    n = own.rank_and_size()[1]
    for dtype, length in zip([*FLOATS, torch.int8], (0, n - 1, 12 * n, 12 * n + 1, n), strict=True):
        halves_of(length, dtype)


def halves_of(length: int, dtype: torch.dtype) -> None:
    rank, n = own.rank_and_size()
    x = numbers(length, dtype, rank)
    total = x.clone()
    dist.all_reduce(total)
    with wire.counted() as direct:
        piece = own.direct_reduce_scatter(x)
    assert piece.dtype == dtype
    assert torch.equal(x, numbers(length, dtype, rank)) and torch.equal(
        piece, own.chunks(total, n)[rank]
    )
    with wire.counted() as scatter:
        piece = own.ring_reduce_scatter(x)
    assert torch.equal(piece, own.chunks(total, n)[rank])
    assert piece.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), "in place"
    for other, stale in enumerate(own.chunks(x, n)):
        if other != rank:
            stale.fill_(-99)
    with wire.counted() as gather:
        own.ring_all_gather(x)
    assert torch.equal(x, total)
    for counted, collective in (
        (direct, "reduce-scatter"),
        (scatter, "reduce-scatter"),
        (gather, "all-gather"),
    ):
        formula = comm.traffic(collective, payload=x.nbytes, ranks=n)
        sent = torch.tensor([counted.sent])
        dist.all_reduce(sent)
        assert sent.item() == formula.total
        assert length < n or counted.messages == formula.rounds


@pytest.mark.parametrize("n", SIZES)
def test_reduce_scatter_then_all_gather_is_an_all_reduce(n):
    launch.run(halves, n)


def deal(*deals: list[list[int]]) -> list[int]:
    """A deal's [i][j]: elements that rank i has for rank j. Returns what this rank sent in each."""
    rank, n = own.rank_and_size()
    bytes_sent = []
    for sizes in deals:
        sent = [torch.full((sizes[rank][other],), float(10 * rank + other)) for other in range(n)]
        received = [torch.full((sizes[other][rank],), -1.0) for other in range(n)]
        with wire.counted() as counted:
            own.all_to_all(received, sent)
        for other in range(n):
            assert received[other].tolist() == [10 * other + rank] * sizes[other][rank]
        bytes_sent.append(counted.sent)
    return bytes_sent


@pytest.mark.parametrize("n", SIZES)
def test_all_to_all_deals_each_rank_its_own(n):
    uneven = [[(3 * i + 5 * j) % 4 for j in range(n)] for i in range(n)]
    formula = comm.traffic("all-to-all", payload=4 * 6 * n, ranks=n)
    expected = [[4 * (sum(row) - row[rank]), formula.busiest] for rank, row in enumerate(uneven)]
    assert launch.run(deal, n, uneven, [[6] * n] * n) == expected


def by_levels(levels: list[int], lengths: list[int]) -> list[int]:
    groups = [
        own.process_group_of(level)
        for level in mesh.hierarchical_groups(dist.get_world_size(), levels)
    ]
    bytes_sent = []
    for length in lengths:
        x = numbers(length, torch.float32, dist.get_rank())
        total = x.clone()
        dist.all_reduce(total)
        with wire.counted() as counted:
            own.hierarchical_all_reduce(x, groups)
        assert torch.equal(x, total)
        bytes_sent.append(counted.sent)
    return bytes_sent


@pytest.mark.parametrize("levels", [[1], [4], [2, 2], [2, 3], [3, 2], [2, 2, 2]])
def test_hierarchical_sums_over_all_and_sends_what_its_levels_send(levels):
    n = math.prod(levels)
    formula = comm.hierarchical(payload=4 * 24 * n, levels=levels)
    ranks = launch.run(by_levels, n, levels, [24 * n, 0, 1, n + 1])
    assert [sent[0] for sent in ranks] == [sum(level.busiest for level in formula)] * n


def in_a_group(groups: list[list[int]]) -> dict[str, float]:
    group, sums = own.process_group_of(groups), {}
    for name, (all_reduce, _) in ALL_REDUCE.items():
        x = torch.tensor([10.0 ** dist.get_rank()])
        all_reduce(x, group)
        sums[name] = x.item()
    return sums


def test_a_group_keeps_to_itself():
    ranks = launch.run(in_a_group, 5, [[0, 3, 4], [1, 2]])
    for name in ALL_REDUCE:
        assert [sums[name] for sums in ranks] == [11001, 110, 110, 11001, 11001], name


def test_a_parameter_is_summed_in_its_place_and_no_graph_is_made():
    def in_turn() -> list[float]:
        x = torch.ones(4, requires_grad=True)
        for all_reduce, _ in ALL_REDUCE.values():
            all_reduce(x)
        assert x.is_leaf
        return x.tolist()

    assert launch.run(in_turn, 2) == [[2.0 ** len(ALL_REDUCE)] * 4] * 2


def refuses() -> list[str]:
    said = []
    one, two = torch.zeros(1), torch.zeros(2)
    for wrong in (
        lambda: own.ring_all_reduce(torch.zeros(4, 4).t()),
        lambda: own.all_to_all([], [one]),
        lambda: own.all_to_all([two], [one]),
        lambda: own.all_to_all([one.int()], [one]),
        lambda: own.ring_all_reduce(torch.ones(2, dtype=torch.cfloat).conj()),
        lambda: own.ring_all_reduce(torch.ones(2, dtype=torch.cfloat).conj().imag),
    ):
        with pytest.raises(InputError) as caught:
            wrong()
        said.append(str(caught.value))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(InputError) as caught:
        patch.setattr(dist, "get_backend", lambda group: "nccl")
        own.ring_all_reduce(torch.zeros(4))
    return [*said, str(caught.value)]


def test_what_cannot_work_is_refused():
    transposed, dealt, kept, mixed, *lazy, waiting = launch.run(refuses, 1)[0]
    assert mixed == (
        "received, sent of types torch.float32, torch.int32: expected one type of number"
    )
    for told in lazy:
        assert told.startswith("tensor is the conjugate or negative of what lies in its memory")
    assert transposed.startswith("tensor of shape (4, 4): expected a contiguous one")
    assert dealt.startswith("received, sent = 0, 1 tensors: expected 1 each, one a rank")
    assert waiting.startswith("group over nccl: expected one over gloo")
    assert kept.startswith("received[0] has 2 elements: expected 1")


def test_a_rank_without_a_group_is_told_so():
    with pytest.raises(launch.RankError) as caught:
        launch.run(lambda: own.process_group_of([[0]]), 2)
    assert "groups = [[0]]: expected rank 1 in one of them" in caught.value.failures[1]
