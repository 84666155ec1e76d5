"""Slow wires hold back what they are told to, whoever holds them.

A busy machine makes everything slower: so pauses are counted, rates are asked for, and of a time
only this is judged, that it is no shorter than the wire allows.
"""

import math
import socket
import struct
import sys
import threading

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.checks import InputError
from mathlib.launch import slow_wires
from mathlib.meters import clock
from mathlib.parallel import collectives as own
from mathlib.traffic import comm

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
LINK, PAYLOAD, LATENCY = 5e6, 480_000, 0.03
BURST = 10 * 64 * 1024  # what the kernel lets pass at first, in bytes


def paused(slowed: list[int], by: str) -> float:
    """Seconds that this rank paused in a ring all-reduce, had it slept them."""
    slept: list[float] = []
    here = LINK if dist.get_rank() in slowed else math.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow_wires.time, "sleep", slept.append)
        with slow_wires.wires(latency=LATENCY, bandwidth=here, by=by) as kept:
            own.ring_all_reduce(torch.ones(PAYLOAD // 4))
    assert kept == by
    return sum(slept)


@pytest.mark.parametrize("slowed", [[], [1], [0, 1, 2]])
def test_a_pause_is_latency_and_bytes_over_bandwidth(slowed):
    formula = comm.time("all-reduce", payload=PAYLOAD, ranks=3, bandwidth=LINK, latency=LATENCY)
    for rank, seconds in enumerate(launch.run(paused, 3, slowed, "program")):
        expected = formula.total if rank in slowed else formula.amount("latency")
        assert seconds == pytest.approx(expected), rank


@LINUX
def test_where_the_kernel_holds_the_bandwidth_only_latency_is_a_pause():
    formula = comm.time("all-reduce", payload=PAYLOAD, ranks=3, bandwidth=LINK, latency=LATENCY)
    pauses = launch.run(paused, 3, [0, 1, 2], "kernel")
    assert pauses == pytest.approx([formula.amount("latency")] * 3)


def rates() -> list[set[int]]:
    """The rates of this rank's connections: inside the block and after it."""

    def asked() -> set[int]:
        option = socket.SOL_SOCKET, slow_wires.PACING_RATE, 8
        return {struct.unpack("=Q", s.getsockopt(*option))[0] for _, s in slow_wires.connections()}

    dist.barrier()
    with slow_wires.wires(bandwidth=LINK):
        inside = asked()
    return [inside, asked()]


@LINUX
def test_the_kernel_is_told_the_rate_and_to_forget_it():
    assert launch.run(rates, 3) == [[{int(LINK)}, {2**64 - 1}]] * 3


def ring_seconds(slowed: list[int], payload: int, by: str) -> float:
    here = LINK if dist.get_rank() in slowed else math.inf
    with slow_wires.wires(bandwidth=here, by=by):
        return clock.slowest_rank_seconds(own.ring_all_reduce, torch.ones(payload // 4), repeat=1)


@pytest.mark.parametrize("by", ["program", pytest.param("kernel", marks=LINUX)])
@pytest.mark.parametrize("slowed", [[1], [0, 1, 2]])
def test_a_ring_is_no_faster_than_its_slow_link_lets_it_be(slowed, by):
    payload = 8 * PAYLOAD
    held = comm.time("all-reduce", payload=payload, ranks=3, bandwidth=LINK).total
    first, *others = launch.run(ring_seconds, 3, slowed, payload, by)
    assert others == [first] * 2, "all ranks are told the time of the slowest"
    assert first > (held - BURST / LINK if by == "kernel" else held)


def messages(all_reduce) -> list[tuple[str, int]]:
    """What this rank does, in order: sends to, or waits for."""
    said: list[tuple[str, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("send", "receive"):
            begin = getattr(own, name)
            patch.setattr(
                own,
                name,
                lambda piece, other, group, name=name, begin=begin: (
                    said.append((name, other)) or begin(piece, other, group)
                ),
            )
        all_reduce(torch.ones(1))
    return said


def rounds(ranks: list[list[tuple[str, int]]]) -> int:
    """How long the messages take if each takes one round to leave, and nothing else takes time."""
    clocks, left = [0] * len(ranks), [list(said) for said in ranks]
    on_its_way: dict[tuple[int, int], list[int]] = {}
    while any(left):
        for rank, said in enumerate(left):
            while said:
                what, other = said[0]
                if what == "send":
                    clocks[rank] += 1
                    on_its_way.setdefault((rank, other), []).append(clocks[rank])
                elif arrived := on_its_way.get((other, rank)):
                    clocks[rank] = max(clocks[rank], arrived.pop(0))
                else:
                    break
                said.pop(0)
    return max(clocks)


def test_a_tree_is_as_deep_as_its_formula_says():
    """On the way down the largest subtree comes first, or the last leaf would wait for nine
    messages, not six.
    """
    formula = comm.traffic("all-reduce", payload=4, ranks=8, algorithm="tree")
    assert rounds(launch.run(messages, 8, own.tree_all_reduce)) == formula.rounds == 6


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"latency": -1}, "latency = -1"),
        ({"bandwidth": 0}, "bandwidth = 0"),
        ({"by": "magic"}, "by = 'magic'"),
    ],
)
def test_bad_input_names_the_argument(wrong, named):
    with pytest.raises(InputError, match=named), slow_wires.wires(**wrong):
        pass


def nothing_asked() -> tuple[str, float]:
    slept: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow_wires.time, "sleep", slept.append)
        with slow_wires.wires() as kept:
            assert torch.zeros(2, dtype=torch.int8).dtype == torch.int8
            own.ring_all_reduce(torch.ones(3))
    return kept, sum(slept)


@pytest.mark.parametrize(("platform", "by"), [("linux", "kernel"), ("darwin", "program")])
def test_who_holds_the_bandwidth_unless_told_and_nothing_is_held_unless_asked(platform, by):
    def there() -> tuple[str, float]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "platform", platform)
            return nothing_asked()

    assert launch.run(there, 2) == [(by, 0.0)] * 2


def carried() -> tuple[list[float], list[float], str]:
    """Two buffers sent at once, with pauses that are counted, not slept; and one that fails."""
    slept: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow_wires.time, "sleep", slept.append)
        begin = slow_wires.all_reducer(latency=LATENCY)
        futures = [begin(torch.full((2,), x + dist.get_rank())) for x in (1.0, 10.0)]
        sums = [future.wait()[0].item() for future in futures]
        with pytest.raises(Exception) as caught:  # a type that gloo cannot add
            begin(torch.ones(1, dtype=torch.float8_e4m3fn)).wait()
    return slept, sums, str(caught.value)


def test_an_all_reduce_in_a_thread_pauses_as_a_ring_does_and_brings_the_sum_or_the_error():
    for slept, sums, told in launch.run(carried, 3):
        assert slept == [pytest.approx(2 * 2 * LATENCY)] * 3, "2 (N-1) alpha before each"
        assert sums == [1 + 2 + 3, 10 + 11 + 12]
        assert told
    with pytest.raises(InputError, match="latency = -1"):
        slow_wires.all_reducer(latency=-1)


def beside() -> bool:
    """Whether the rank goes on while the buffer waits for its turn."""
    go_on = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow_wires.time, "sleep", lambda _: go_on.wait(30))
        future = slow_wires.all_reducer(latency=1.0)(torch.ones(1))
        done_too_early = future.done()
        go_on.set()
        future.wait()
    return not done_too_early


def test_a_rank_computes_on_while_its_buffer_is_carried():
    assert all(launch.run(beside, 2))
