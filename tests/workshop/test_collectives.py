"""Collectives from send and receive: the right numbers, and as many bytes as the formulas say."""

import pytest

from mathlib.traffic import comm
from mathlib.workshop import budgets, collectives
from mathlib.workshop.diagnosis import total
from mathlib.workshop.draw import drawn
from mathlib.workshop.ranks import NUMBER, run
from mathlib.workshop.steps import Fault
from mathlib.workshop.tensor import join


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_ring_sums_and_gathers(n):
    parts = [drawn(f"{r}", 12) for r in range(n)]
    cluster = budgets.alone(n)
    reduced = run(collectives.reduce_scatter, cluster, lambda me: [parts[me.rank][:]])
    assert reduced.results == total(parts).shards(n)
    gathered = run(collectives.all_gather, cluster, lambda me: [parts[0].shards(n)[me.rank]])
    assert gathered.results == [parts[0]] * n
    summed = run(collectives.all_reduce, cluster, lambda me: [parts[me.rank][:]])
    assert summed.results == [total(parts)] * n
    if 12 % n == 0:
        link = {"payload": NUMBER * 12, "ranks": n}
        seconds = comm.time("all-reduce", **link, **budgets.LINK._asdict()).total
        assert summed.run.sent == [comm.sent("all-reduce", **link)] * n
        assert summed.run.total == pytest.approx(seconds)


def test_a_group_is_a_list_of_ranks_in_its_order():
    async def program(me):
        group = [3, 1] if me.rank % 2 else [0, 2]
        return await collectives.all_gather(me, drawn(f"{me.rank}", 2), group)

    out = run(program, budgets.alone(4))
    odd = join([drawn("3", 2), drawn("1", 2)])
    even = join([drawn("0", 2), drawn("2", 2)])
    assert out.results == [even, odd, even, odd]


def test_a_group_without_the_rank_that_calls_is_refused():
    async def program(me):
        await collectives.all_gather(me, drawn(f"{me.rank}", 2), [0, 2])

    with pytest.raises(Fault, match=r"rank 1, group \[0, 2\]: rank 1 calls it and is not in it"):
        run(program, budgets.alone(3))


def test_a_part_for_each_rank_is_asked_for():
    async def program(me):
        await collectives.all_to_all(me, [drawn("x", 2)])

    with pytest.raises(Fault, match=r"of 1 parts: expected one for each rank of \[0, 1, 2\]"):
        run(program, budgets.alone(3))


def test_all_to_all_hands_out_parts_and_some_may_be_empty():
    async def program(me):
        parts = [drawn(f"{me.rank} to {r}", 2, 2)[:r] for r in range(me.size)]
        return await collectives.all_to_all(me, parts)

    out = run(program, budgets.alone(3))
    for r, got in enumerate(out.results):
        assert got == [drawn(f"{o} to {r}", 2, 2)[:r] for o in range(3)]
