"""Every algorithm is executed on lists of numbers between virtual ranks; bytes and rounds are
counted, not derived.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_ranks import (
    ALL_REDUCE,
    Run,
    by_levels,
    halving_doubling,
    ring_all_gather,
    ring_reduce_scatter,
    split,
    tree_broadcast,
    tree_reduce,
)

from mathlib.checks import InputError
from mathlib.traffic import comm


def test_bytes_and_times_by_hand() -> None:
    """12 bytes over 4 ranks: rounds, one after the other, by the busiest, by all together."""
    for collective, algorithm, wanted in (
        ("all-reduce", "", (6, 18, 18, 72)),
        ("all-reduce", "tree", (4, 48, 24, 72)),
        ("all-reduce", "halving-doubling", (4, 18, 18, 72)),
        ("all-reduce", "naive", (6, 72, 36, 72)),
        ("reduce-scatter", "", (3, 9, 9, 36)),
        ("all-gather", "ring", (3, 9, 9, 36)),
        ("all-to-all", "", (3, 9, 9, 36)),
        ("broadcast", "", (2, 24, 24, 36)),
        ("broadcast", "naive", (3, 36, 36, 36)),
        ("reduce", "", (2, 24, 12, 36)),
        ("gather", "", (3, 9, 3, 9)),
        ("scatter", "", (3, 9, 9, 9)),
        ("send", "", (1, 12, 12, 12)),
    ):
        said = comm.traffic(collective, payload=12, ranks=4, algorithm=algorithm)
        assert (said.rounds, said.serial, said.busiest, said.total) == wanted, collective
        assert said.mean == said.total / 4
        whole = 12 if collective == "send" else said.total / 4
        assert comm.sent(collective, payload=12, ranks=4, algorithm=algorithm) == whole
        how = {"ranks": 4, "bandwidth": 3, "algorithm": algorithm}
        parts = comm.time(collective, payload=12, latency=5, **how)
        assert dict(parts.items()) == {"latency": 5 * said.rounds, "transfer": said.serial / 3}
        assert comm.time(collective, payload=12, **how)["latency"] == 0
    odd = comm.traffic("all-reduce", payload=12, ranks=5, algorithm="halving-doubling")
    assert (odd.rounds, odd.serial, odd.busiest, odd.total) == (6, 42, 30, 96)
    assert comm.ring_balance(payload=12, bandwidth=3, latency=2) == 2


def test_levels_by_hand() -> None:
    """12 bytes over 2 x 3 x 2 ranks: rings of 12, of 6 and of 2 bytes."""
    levels = comm.hierarchical(payload=12, levels=[2, 3, 2])
    assert [(t.rounds, t.serial) for t in levels] == [(2, 12), (4, 8), (2, 2)]
    halves = comm.hierarchical("all-gather", payload=12, levels=[2, 3, 2])
    assert [(t.rounds, t.serial) for t in halves] == [(1, 6), (2, 4), (1, 1)]
    how = {"payload": 12, "levels": [2, 3, 2], "bandwidths": [4, 2, 1]}
    free = comm.hierarchical_time(**how)
    assert dict(free.items()) == {"inside": 3, "level 2": 4, "level 3": 2}
    slow = comm.hierarchical_time("reduce-scatter", **how, latencies=[1, 10, 100])
    assert dict(slow.items()) == {"inside": 1.5 + 1, "level 2": 2 + 20, "level 3": 1 + 100}
    two = comm.hierarchical_time(payload=12, levels=[2, 3], bandwidths=[1, 1])
    assert dict(two.items()) == {"inside": 12, "across": 8}
    assert list(comm.hierarchical_time(payload=12, levels=[2], bandwidths=[1])) == ["inside"]


def test_bus_bandwidth_by_hand() -> None:
    """nccl-tests, doc/PERFORMANCE.md, for 4 ranks."""
    factors = {name: comm.bus_factor(name, 4) for name in comm.BUS_FACTORS}
    halves = ("reduce-scatter", "all-gather", "all-to-all", "gather", "scatter")
    assert factors == {
        "all-reduce": 1.5,
        "all-reduce-in-network": 1.25,
        **dict.fromkeys(halves, 0.75),
        **dict.fromkeys(("broadcast", "reduce", "send"), 1),
    }
    assert comm.bus_bandwidth("all-reduce", payload=8, ranks=4, seconds=2) == 6
    assert comm.time_at_bus_bandwidth("all-reduce", payload=8, ranks=4, bus_bandwidth=6) == 2
    assert comm.time_at_bus_bandwidth("all-reduce", payload=0, ranks=4, bus_bandwidth=6) == 0


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
@pytest.mark.parametrize("n", range(1, 10))
def test_all_reduce_sums_and_sends_what_the_formula_says(algorithm: str, n: int) -> None:
    for length in [*range(0, 2 * n + 1), 64 * n]:
        run = Run(n, length, ALL_REDUCE[algorithm](list(range(n)), (0, length)))
        assert all(held == run.wanted for held in run.held), "a rank holds a wrong sum"
        said = comm.traffic("all-reduce", payload=length, ranks=n, algorithm=algorithm)
        assert said.total == sum(run.sent) == 2 * (n - 1) * length, (
            "all of these move as much in total"
        )
        assert said.rounds == run.rounds
        if length == 64 * n:  # pieces of equal size, however often it is halved
            assert said.busiest == pytest.approx(max(run.sent), rel=1e-12)
            assert said.serial == pytest.approx(run.serial, rel=1e-12)


def test_halving_and_doubling_sends_its_largest_messages_to_the_nearest_rank() -> None:
    """Rabenseifner's order: between two nodes of 4 ranks 2 K cross, as few as can, not 8 K."""
    crossed = [
        high - low
        for messages in halving_doubling(list(range(8)), (0, 8))
        for frm, to, (low, high), _ in messages
        if frm // 4 != to // 4
    ]
    assert set(crossed) == {1} and sum(crossed) == 2 * 8


HALVES = {
    "reduce-scatter": ring_reduce_scatter,
    "all-gather": ring_all_gather,
    "broadcast": tree_broadcast,
    "reduce": tree_reduce,
}


def counted(run: Run) -> tuple[float, ...]:
    return run.rounds, run.serial, max(run.sent), sum(run.sent)


def claimed(collective: str, payload: float, ranks: int, algorithm: str = "") -> tuple[float, ...]:
    said = comm.traffic(collective, payload=payload, ranks=ranks, algorithm=algorithm)
    assert said.mean * ranks == pytest.approx(said.total)
    return said.rounds, said.serial, said.busiest, said.total


@pytest.mark.parametrize("collective", HALVES)
@pytest.mark.parametrize("n", range(1, 10))
def test_the_other_collectives(collective: str, n: int) -> None:
    run = Run(n, 12 * n, HALVES[collective](list(range(n)), (0, 12 * n)))
    assert claimed(collective, 12 * n, n) == counted(run)
    pieces = split((0, 12 * n), n)
    where = {
        "reduce-scatter": [(i, pieces[(i + 1) % n]) for i in range(n)],
        "reduce": [(0, (0, 12 * n))],
    }
    for rank, (low, high) in where.get(collective, []):
        assert run.held[rank][low:high] == run.wanted[low:high]
    if collective == "broadcast":
        assert all(held == run.held[0] for held in run.held)


@pytest.mark.parametrize("n", range(1, 10))
def test_all_to_all_and_its_naive_relatives(n: int) -> None:
    """Direct messages of K / N: rank r sends piece p to rank p, and in no round two to one rank."""
    length = 12 * n
    pieces = split((0, length), n)
    exchange = [
        [(r, (r + step) % n, pieces[(r + step) % n], False) for r in range(n)]
        for step in range(1, n)
    ]
    gather = [[(r, 0, pieces[r], False)] for r in range(1, n)]
    scatter = [[(0, r, pieces[r], False)] for r in range(1, n)]
    broadcast = [[(0, r, (0, length), False)] for r in range(1, n)]
    for rounds, collective in ((exchange, "all-to-all"), (gather, "gather"), (scatter, "scatter")):
        assert claimed(collective, length, n) == counted(Run(n, length, rounds))
    assert claimed("broadcast", length, n, "naive") == counted(Run(n, length, broadcast))


@pytest.mark.parametrize("levels", [[4], [2, 3], [3, 2], [2, 2, 2], [4, 1], [1, 5], [3, 3]])
def test_hierarchical_all_reduce_by_levels(levels: list[int]) -> None:
    world = 1
    for n in levels:
        world *= n
    length = 6 * world
    out, back = by_levels(levels, (0, length))
    run = Run(world, length, sum(out, []) + sum(reversed(back), []))
    assert all(held == run.wanted for held in run.held)
    for level, said in enumerate(comm.hierarchical(payload=length, levels=levels)):
        alone = Run(world, length, out[level] + back[level])
        assert said.rounds == alone.rounds
        assert said.serial == pytest.approx(alone.serial) and said.busiest == pytest.approx(
            max(alone.sent)
        )
    assert sum(t.mean for t in comm.hierarchical(payload=length, levels=levels)) == pytest.approx(
        run.sent[0]
    )


sizes, counts = st.floats(0, 1e12), st.integers(1, 4096)


@given(sizes, st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_levels_send_as_much_as_one_ring(k: float, levels: list[int]) -> None:
    world = 1
    for n in levels:
        world *= n
    for collective in ("all-reduce", "reduce-scatter", "all-gather"):
        split_up = sum(t.mean for t in comm.hierarchical(collective, payload=k, levels=levels))
        assert split_up == pytest.approx(
            comm.sent(collective, payload=k, ranks=world), rel=1e-9, abs=1e-9
        )


@pytest.mark.parametrize("n", range(1, 9))
def test_ring_steps_sum_every_piece_and_bring_it_to_every_rank(n: int) -> None:
    held = [[{rank} for _ in range(n)] for rank in range(n)]
    each = [comm.ring_steps(range(n), rank) for rank in range(n)]
    for step in range(n - 1):
        moved = [held[rank - 1][each[rank - 1][0][step][0]] for rank in range(n)]
        for rank, came in enumerate(moved):
            given_left, taken = each[rank - 1][0][step][0], each[rank][0][step][1]
            assert given_left == taken, "the left neighbour gives what this rank takes"
            assert not held[rank][taken] & came, "nobody's numbers are added twice"
            held[rank][taken] = held[rank][taken] | came
    assert all(held[rank][rank] == set(range(n)) for rank in range(n)), "piece r ends on rank r"
    for step in range(n - 1):
        moved = [held[rank - 1][each[rank - 1][1][step][0]] for rank in range(n)]
        assert all(len(came) == n for came in moved), "only finished sums are passed on"
        for rank, came in enumerate(moved):
            held[rank][each[rank][1][step][1]] = came
    assert all(piece == set(range(n)) for row in held for piece in row)


def test_a_send_is_sent_by_one_rank_however_many_there_are() -> None:
    for ranks in (2, 8):
        assert comm.sent("send", payload=1e9, ranks=ranks) == 1e9
        assert comm.traffic("send", payload=1e9, ranks=ranks).total == 1e9


@pytest.mark.parametrize("n", range(1, 10))
def test_a_switch_that_adds_takes_the_whole_buffer_once_and_a_share_of_the_sum(n: int) -> None:
    """Executed: rank r asks the switch for the sum of piece r, and gives it that sum for all."""
    length = 12 * n
    held = [[(rank + 1) * 1000 + i for i in range(length)] for rank in range(n)]
    wanted = [sum(column) for column in zip(*held, strict=True)]
    given = [0] * n  # elements that a rank hands to the switch
    for r, (low, high) in enumerate(split((0, length), n)):
        for rank in range(n):
            given[rank] += high - low
        total = [sum(held[rank][i] for rank in range(n)) for i in range(low, high)]
        given[r] += high - low
        for rank in range(n):
            held[rank][low:high] = total
    assert all(numbers == wanted for numbers in held)
    assert {g / length for g in given} == {comm.bus_factor("all-reduce-in-network", n)}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: comm.sent("all-reduce", payload=-1, ranks=4), "payload = -1"),
        (lambda: comm.sent("all-reduce", payload=float("nan"), ranks=4), "payload = nan"),
        (lambda: comm.sent("all-reduce", payload=1, ranks=0), "ranks = 0"),
        (lambda: comm.sent("all-reduce", payload=1, ranks=True), "ranks = True"),
        (lambda: comm.sent("allreduce", payload=1, ranks=4), "did you mean all-reduce"),
        (
            lambda: comm.sent("all-gather", payload=1, ranks=4, algorithm="tree"),
            "algorithm = 'tree'",
        ),
        (lambda: comm.time("all-reduce", payload=1, ranks=4, bandwidth=0), "bandwidth = 0"),
        (lambda: comm.hierarchical(payload=1, levels=[]), "levels = []"),
        (lambda: comm.hierarchical("reduce", payload=1, levels=[2]), "collective = 'reduce'"),
        (lambda: comm.traffic("send", payload=1, ranks=1), "ranks = 1"),
        (lambda: comm.ring_steps("abc", 0), "chunks = 'abc'"),
        (lambda: comm.ring_steps([1, 2], 2), "rank = 2: expected 0 to 1"),
        (
            lambda: comm.hierarchical_time(
                payload=1, levels=[2, 2], bandwidths=[1, 1], latencies=[1]
            ),
            "latencies = [1]: expected one for each of the 2 levels",
        ),
        (
            lambda: comm.hierarchical_time(payload=1, levels=[2, 2], bandwidths=[1]),
            "bandwidths = [1]",
        ),
        (lambda: comm.bus_factor("all-reduce", 2.5), "ranks = 2.5"),
        (
            lambda: comm.crossover("all-reduce", "ring", "star", ranks=8, bandwidth=1, latency=1),
            "second = 'star'",
        ),
        (lambda: comm.ring_messages(payload=1, bandwidths=[1, 0]), "bandwidths = 0"),
        (lambda: comm.ring_messages(payload=1, bandwidths=[]), "bandwidths = 0"),
        (lambda: comm.ring_balance(payload=1, bandwidth=1, latency=0), "latency = 0"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
