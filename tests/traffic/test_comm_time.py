"""How long a collective takes: laws of its time, who wins where, links of their own speed."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_ranks import ALL_REDUCE

from mathlib.traffic import comm


def test_a_ring_of_unequal_links_by_hand() -> None:
    """Two ranks, 2 bytes each way a round; rank 1 waits for what the slow link brings it."""
    messages = comm.ring_messages(payload=4, bandwidths=[1, 2])
    assert messages == [[(0, 2), (2, 4)], [(0, 1), (2, 3)]]
    late = comm.ring_messages(payload=4, bandwidths=[1, 2], latency=10)
    assert late == [[(0, 12), (12, 24)], [(0, 11), (12, 23)]]
    assert comm.ring_messages(payload=4, bandwidths=[1]) == [[]]
    scatter, gather = comm.ring_steps(list("abc"), 1)
    assert scatter == [("a", "c"), ("c", "b")] and gather == [("b", "a"), ("a", "c")]


sizes, counts = st.floats(0, 1e12), st.integers(1, 4096)


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
def test_faster_says_for_which_payloads_by_trying_them(ranks: int) -> None:
    tried = [10 ** (e / 7) for e in range(-7, 84)]
    for latency in (0.0, 1e-5):
        link = {"ranks": ranks, "bandwidth": 1e9, "latency": latency}
        times = {
            name: [comm.time("all-reduce", payload=k, algorithm=name, **link).total for k in tried]
            for name in ALL_REDUCE
        }
        for first, second in product(ALL_REDUCE, ALL_REDUCE):
            low, high = comm.faster("all-reduce", first, second, **link)
            for k, mine, other in zip(tried, times[first], times[second], strict=True):
                quicker = mine < other * (1 - 1e-12)
                assert (low < k < high) == quicker, f"{first}, {second}, {latency}: {k} bytes"
            beyond = low if high == float("inf") else float("inf")
            assert comm.crossover("all-reduce", first, second, **link) == beyond


def test_small_payloads_have_a_crossover_too() -> None:
    """8 ranks: a tree needs 8 rounds fewer, and 17/4 K more one after the other."""
    low, high = comm.faster("all-reduce", "tree", "ring", ranks=8, **LINK)
    assert low == 0 and high == pytest.approx(8 * 1e-5 * 1e9 / 4.25)
    assert comm.faster("all-reduce", "ring", "tree", ranks=8, **LINK) == (high, float("inf"))
    assert comm.faster("all-reduce", "ring", "ring", ranks=8, **LINK) == (0, 0)


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
