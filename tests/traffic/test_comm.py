"""Every algorithm is executed on lists of numbers between virtual ranks; bytes and rounds are
counted, not derived.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.traffic import comm
from mathlib.traffic.mesh import Mesh

Span = tuple[int, int]
Rounds = list[
    list[tuple[int, int, Span, bool]]
]  # messages of a round: from, to, which elements, added or copied


def split(span: Span, n: int) -> list[Span]:
    """n consecutive pieces that differ by one element at most."""
    low, length = span[0], span[1] - span[0]
    edges = [low + length * i // n for i in range(n + 1)]
    return list(zip(edges, edges[1:], strict=False))


def ring_reduce_scatter(group: list[int], span: Span) -> Rounds:
    """Position i ends up with the sum of piece i + 1."""
    n, pieces = len(group), split(span, len(group))
    return [
        [(group[i], group[(i + 1) % n], pieces[(i - step) % n], True) for i in range(n)]
        for step in range(n - 1)
    ]


def ring_all_gather(group: list[int], span: Span) -> Rounds:
    n, pieces = len(group), split(span, len(group))
    return [
        [(group[i], group[(i + 1) % n], pieces[(i + 1 - step) % n], False) for i in range(n)]
        for step in range(n - 1)
    ]


def ring(group: list[int], span: Span) -> Rounds:
    return ring_reduce_scatter(group, span) + ring_all_gather(group, span)


def tree_reduce(group: list[int], span: Span) -> Rounds:
    n, rounds, near = len(group), [], 1
    while near < n:
        rounds.append(
            [(group[i + near], group[i], span, True) for i in range(0, n - near, 2 * near)]
        )
        near *= 2
    return rounds


def tree_broadcast(group: list[int], span: Span) -> Rounds:
    upwards = reversed(tree_reduce(group, span))
    return [
        [(parent, child, where, False) for child, parent, where, _ in messages]
        for messages in upwards
    ]


def naive(group: list[int], span: Span) -> Rounds:
    root, others = group[0], group[1:]
    return [[(r, root, span, True)] for r in others] + [[(root, r, span, False)] for r in others]


def halving_doubling(group: list[int], span: Span) -> Rounds:
    """Nearest first: half of the buffer to the neighbour, a quarter two ranks on, and back."""
    n = len(group)
    m = 1 << (n.bit_length() - 1)
    paired = 2 * (n - m)
    extra = [(group[i], group[i + 1]) for i in range(0, paired, 2)]
    core, mine = group[1:paired:2] + group[paired:], dict.fromkeys(range(m), span)
    distances = [1 << step for step in range(m.bit_length() - 1)]
    down, up = [], []
    for far in distances:
        messages = []
        for i in range(m):
            low, high = split(mine[i], 2)
            keep, give = (high, low) if i & far else (low, high)
            messages.append((core[i], core[i ^ far], give, True))
            mine[i] = keep
        down.append(messages)
    for far in reversed(distances):
        up.append([(core[i], core[i ^ far], mine[i], False) for i in range(m)])
        mine = {
            i: (min(mine[i][0], mine[i ^ far][0]), max(mine[i][1], mine[i ^ far][1]))
            for i in range(m)
        }
    before = [[(a, b, span, True) for a, b in extra]] if extra else []
    after = [[(b, a, span, False) for a, b in extra]] if extra else []
    return before + down + up + after


def together(schedules: list[Rounds]) -> Rounds:
    """Schedules of disjoint groups, side by side."""
    return [
        [message for messages in parallel for message in messages]
        for parallel in zip(*schedules, strict=True)
    ]


def by_levels(levels: list[int], span: Span) -> tuple[list[Rounds], list[Rounds]]:
    """Reduce-scatters of every level going out and all-gathers coming back."""
    mesh = Mesh({str(i): n for i, n in enumerate(levels)})
    owned = dict.fromkeys(range(mesh.world), span)
    out, back = [], []
    for level, n in enumerate(levels):
        groups = mesh.groups(str(level))
        out.append(together([ring_reduce_scatter(g, owned[g[0]]) for g in groups]))
        back.append(together([ring_all_gather(g, owned[g[0]]) for g in groups]))
        for group in groups:
            pieces = split(owned[group[0]], n)
            for i, rank in enumerate(group):
                owned[rank] = pieces[(i + 1) % n]
    return out, back


class Run:
    """Executes rounds on lists of numbers; one send and one receive a rank and round, as on a real
    link.
    """

    def __init__(self, ranks: int, length: int, rounds: Rounds):
        self.held = [[(rank + 1) * 1000 + i for i in range(length)] for rank in range(ranks)]
        self.wanted = [sum(column) for column in zip(*self.held, strict=True)]
        self.sent, self.serial, self.rounds = [0] * ranks, 0, len(rounds)
        for messages in rounds:
            assert len({m[0] for m in messages}) == len({m[1] for m in messages}) == len(messages)
            payloads = [self.held[frm][low:high] for frm, _, (low, high), _ in messages]
            for (frm, to, (low, high), add), payload in zip(messages, payloads, strict=True):
                self.sent[frm] += len(payload)
                old = self.held[to][low:high]
                self.held[to][low:high] = (
                    [a + b for a, b in zip(old, payload, strict=True)] if add else payload
                )
            self.serial += max(map(len, payloads))


ALL_REDUCE = {
    "ring": ring,
    "halving-doubling": halving_doubling,
    "naive": naive,
    "tree": lambda group, span: tree_reduce(group, span) + tree_broadcast(group, span),
}


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


def test_a_ring_of_unequal_links_by_hand() -> None:
    """Two ranks, 2 bytes each way a round; rank 1 waits for what the slow link brings it."""
    messages = comm.ring_messages(payload=4, bandwidths=[1, 2])
    assert messages == [[(0, 2), (2, 4)], [(0, 1), (2, 3)]]
    late = comm.ring_messages(payload=4, bandwidths=[1, 2], latency=10)
    assert late == [[(0, 12), (12, 24)], [(0, 11), (12, 23)]]
    assert comm.ring_messages(payload=4, bandwidths=[1]) == [[]]
    scatter, gather = comm.ring_steps(list("abc"), 1)
    assert scatter == [("a", "c"), ("c", "b")] and gather == [("b", "a"), ("a", "c")]


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


@given(sizes, counts, st.floats(1e6, 1e12), st.floats(0, 1))
def test_one_level_is_the_flat_ring(k: float, n: int, b: float, alpha: float) -> None:
    flat = comm.time("all-reduce", payload=k, ranks=n, bandwidth=b, latency=alpha)
    one = comm.hierarchical_time(payload=k, levels=[n], bandwidths=[b], latencies=[alpha])
    assert one.total == pytest.approx(flat.total)


@given(st.sampled_from(list(ALL_REDUCE)), sizes, counts, st.floats(1e6, 1e12), st.floats(0, 1))
def test_time_grows_with_payload_and_ranks_and_falls_with_bandwidth(
    algorithm: str, k: float, n: int, b: float, alpha: float
) -> None:
    def seconds(k: float, n: int, b: float) -> float:
        return comm.time(
            "all-reduce", payload=k, ranks=n, bandwidth=b, latency=alpha, algorithm=algorithm
        ).total

    now = seconds(k, n, b)
    assert seconds(2 * k, n, b) >= now and seconds(k, n, 2 * b) <= now
    assert (
        seconds(k, 2 * n, b) >= now or algorithm == "halving-doubling"
    )  # which is slower for 3 ranks than for 4
    assert seconds(k, 1, b) == 0


def test_ring_beats_tree_for_large_payloads_and_loses_for_small_ones() -> None:
    def seconds(algorithm: str, k: float) -> float:
        return comm.time(
            "all-reduce", payload=k, ranks=64, bandwidth=1e10, latency=1e-5, algorithm=algorithm
        ).total

    assert seconds("ring", 1e9) < seconds("tree", 1e9)
    assert seconds("ring", 1e3) > seconds("tree", 1e3)
    assert seconds("halving-doubling", 1e3) < seconds("ring", 1e3)


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


@given(st.floats(0, 1e12), st.lists(st.floats(1e6, 1e12), min_size=1, max_size=9), st.floats(0, 1))
def test_a_ring_is_as_fast_as_its_slowest_link_and_no_message_leaves_before_its_piece_came(
    k: float, links: list[float], alpha: float
) -> None:
    messages, n = comm.ring_messages(payload=k, bandwidths=links, latency=alpha), len(links)
    assert [len(row) for row in messages] == [2 * (n - 1)] * n
    for r, row in enumerate(messages):
        for step, (start, _) in enumerate(row):
            waits_for = [row[step - 1][1], messages[r - 1][step - 1][1]] if step else [0.0]
            assert start == max(waits_for)
    last = max((end for row in messages for _, end in row), default=0.0)
    slowest = comm.time("all-reduce", payload=k, ranks=n, bandwidth=min(links), latency=alpha)
    assert last == pytest.approx(slowest.total, rel=1e-9)


@given(st.integers(3, 4096), st.floats(1e6, 1e12), st.floats(1e-7, 1))
def test_at_the_crossover_both_take_the_same_time(n: int, w: float, alpha: float) -> None:
    def seconds(algorithm: str, k: float) -> float:
        return comm.time(
            "all-reduce", payload=k, ranks=n, bandwidth=w, latency=alpha, algorithm=algorithm
        ).total

    k = comm.crossover("all-reduce", "ring", "tree", ranks=n, bandwidth=w, latency=alpha)
    assert seconds("ring", k) == pytest.approx(seconds("tree", k), rel=1e-9) if n > 3 else k == 0
    assert seconds("ring", 2 * k + 1) < seconds("tree", 2 * k + 1)
    assert n == 3 or seconds("ring", k / 2) > seconds("tree", k / 2)


LINK = {"bandwidth": 1e9, "latency": 1e-5}


def test_a_crossover_may_not_exist() -> None:
    def crossover(first: str, second: str, ranks: int = 8) -> float:
        return comm.crossover("all-reduce", first, second, ranks=ranks, **LINK)

    assert crossover("tree", "ring") == float("inf"), "a tree never sends less one after the other"
    assert crossover("halving-doubling", "tree") == 0, "as many rounds, fewer bytes"
    assert crossover("halving-doubling", "ring") == 0, "fewer rounds, as many bytes"
    assert crossover("halving-doubling", "ring", ranks=2) == float("inf"), "they are the same"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 13, 64])
@pytest.mark.parametrize("second", ALL_REDUCE)
@pytest.mark.parametrize("first", ALL_REDUCE)
@pytest.mark.parametrize("latency", [0.0, 1e-5])
def test_faster_says_for_which_payloads_by_trying_them(
    first: str, second: str, ranks: int, latency: float
) -> None:
    link = {"ranks": ranks, "bandwidth": 1e9, "latency": latency}
    low, high = comm.faster("all-reduce", first, second, **link)
    tried = [10 ** (e / 7) for e in range(-7, 84)]
    for k in tried:
        mine, other = (
            comm.time("all-reduce", payload=k, algorithm=name, **link).total
            for name in (first, second)
        )
        assert (low < k < high) == (mine < other * (1 - 1e-12)), f"{k} bytes"
    beyond = low if high == float("inf") else float("inf")
    assert comm.crossover("all-reduce", first, second, **link) == beyond


def test_small_payloads_have_a_crossover_too() -> None:
    """8 ranks: a tree needs 8 rounds fewer, and 17/4 K more one after the other."""
    low, high = comm.faster("all-reduce", "tree", "ring", ranks=8, **LINK)
    assert low == 0 and high == pytest.approx(8 * 1e-5 * 1e9 / 4.25)
    assert comm.faster("all-reduce", "ring", "tree", ranks=8, **LINK) == (high, float("inf"))
    assert comm.faster("all-reduce", "ring", "ring", ranks=8, **LINK) == (0, 0)


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


@given(st.integers(2, 4096), st.floats(1e6, 1e12), st.floats(1e-7, 1))
def test_at_the_balance_half_the_time_of_a_ring_is_latency(n: int, w: float, alpha: float) -> None:
    parts = comm.time("all-reduce", payload=n * alpha * w, ranks=n, bandwidth=w, latency=alpha)
    assert parts.amount("latency") == pytest.approx(parts.amount("transfer"))
    assert comm.ring_balance(payload=n * alpha * w, bandwidth=w, latency=alpha) == pytest.approx(n)


@given(
    st.sampled_from(["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]),
    st.floats(1, 1e12),
    st.integers(2, 512),
)
def test_bus_bandwidth_of_a_perfect_ring_is_the_link(collective: str, k: float, n: int) -> None:
    perfect = comm.time(collective, payload=k, ranks=n, bandwidth=3e11).total
    assert comm.bus_bandwidth(collective, payload=k, ranks=n, seconds=perfect) == pytest.approx(
        3e11
    )
    assert comm.time_at_bus_bandwidth(
        collective, payload=k, ranks=n, bus_bandwidth=3e11
    ) == pytest.approx(perfect)


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
        (lambda: comm.ring_steps("abc", 0), "pieces = 'abc'"),
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
