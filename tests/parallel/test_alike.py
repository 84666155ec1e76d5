"""What is said where ranks bring other tensors: by us if one asks, by gloo in our words if not."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.parallel import alike
from mathlib.parallel import collectives as own


def differ(lengths: list[int], types: list[torch.dtype]) -> None:
    rank = dist.get_rank()
    own.ring_all_reduce(torch.ones(lengths[rank], dtype=types[rank]))


FLOAT, INT = torch.float32, torch.int32
UNLIKE = {
    "length": ([8, 12, 8], [FLOAT] * 3, "rank 0 8 of torch.float32, rank 1 12 of torch.float32"),
    "type": ([8] * 3, [FLOAT, FLOAT, INT], "rank 1 8 of torch.float32, rank 2 8 of torch.int32"),
}


@pytest.mark.parametrize(("lengths", "types", "told"), UNLIKE.values(), ids=UNLIKE)
def test_tensors_that_differ_between_ranks_are_named_if_one_asks(monkeypatch, lengths, types, told):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    with pytest.raises(launch.RankError, match=f"tensor differs between ranks: .*{told}"):
        launch.run(differ, 3, lengths, types)


def test_tensors_alike_go_through_if_one_asks_in_a_group_too(monkeypatch):
    def in_its_group() -> list[float]:
        group = own.process_group_of([[0, 2], [1, 3]])
        x = torch.full((2,), float(dist.get_rank()))
        own.ring_all_reduce(x, group)
        return x.tolist()

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    assert launch.run(in_its_group, 4) == [[2, 2], [4, 4]] * 2


@pytest.mark.parametrize(("lengths", "full"), [([12, 8], 1), ([8, 12], 0)])
def test_and_else_the_rank_that_got_too_much_says_how_much(lengths, full):
    """Halves of 12 and 8 numbers of 4 bytes."""
    with pytest.raises(launch.RankError) as caught:
        launch.run(differ, 2, lengths, [FLOAT] * 2, echo=False)
    told = "a message of 24 bytes came where it had room for 16, so the ranks' tensors differ"
    assert caught.value.rank == full and told in caught.value.failures[full]


def test_numbers_of_another_type_are_not_taken():
    with pytest.raises(launch.RankTimeout, match="message.wait()"):
        launch.run(differ, 2, [8, 8], [FLOAT, INT], timeout=2)


def fits() -> None:
    one, two = torch.zeros(1), torch.zeros(2)
    first = dist.get_rank() == 0
    own.all_to_all([one, two] if first else [two.clone(), one], [one, two] if first else [two, one])


def test_rooms_that_do_not_fit_are_named_if_one_asks(monkeypatch):
    def rooms() -> None:
        """Rank 0 keeps 3 and has room for 2 more; rank 1 gives it 1."""
        received = [torch.zeros(2 + (r == dist.get_rank())) for r in range(2)]
        sent = [torch.zeros(1 if dist.get_rank() else 3), torch.zeros(3 if dist.get_rank() else 2)]
        own.all_to_all(received, sent)

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    told = r"received\[1\] on rank 0 has room for 2 of torch.float32: rank 1 sends 1 of"
    with pytest.raises(launch.RankError, match=told):
        launch.run(rooms, 2)
    launch.run(fits, 2)


def test_an_inventory_tells_what_must_be_alike():
    weight = torch.zeros(2, 3, requires_grad=True)
    here = alike.inventory([("weight", weight), ("steps", torch.zeros((), dtype=torch.int64))])
    assert here == [
        "weight: (2, 3), torch.float32 on cpu, strides (3, 1)",
        "steps: (), torch.int64 on cpu, no gradient",
    ]
    assert alike.first_difference(here, here) is None
    assert alike.first_difference(here, here[:1]) == (here[1], "nothing more")


def test_all_are_heard_in_the_order_of_ranks():
    assert launch.run(lambda: alike.told_by_all(dist.get_rank() * 10, None), 3) == [[0, 10, 20]] * 3
