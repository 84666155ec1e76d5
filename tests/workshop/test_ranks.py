"""Ranks: what they send each other, how long it takes, and why they cannot go on."""

import random

import pytest

from mathlib.schedule import events
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Send, Wait, Work
from mathlib.workshop import ranks
from mathlib.workshop.ranks import NUMBER, run
from mathlib.workshop.steps import FILE, Fault
from mathlib.workshop.tensor import vector, zeros

THREE = Cluster((1, 1, 1), between=Link(bandwidth=8.0, latency=0.5))


def outcome(text, cluster=THREE):
    """What comes of a program's text."""
    names = {"zeros": zeros, "vector": vector}
    exec(compile(text, FILE, "exec"), names)
    return run(names["program"], cluster)


def fault(text, cluster=THREE):
    with pytest.raises(Fault) as found:
        outcome(text, cluster)
    return str(found.value)


PASS_ON = """async def program(me):
    me.compute(1 + me.rank)
    await me.send((me.rank + 1) % me.size, zeros(4))
    return await me.receive((me.rank - 1) % me.size)
"""


def test_what_is_sent_arrives_and_is_counted():
    out = outcome(PASS_ON)
    assert out.results == [zeros(4)] * 3
    assert out.run.sent == [16.0] * 3 and out.run.messages == [1] * 3 and out.crossing == 48
    assert out.run.worked == [1, 2, 3] and out.run.total == 3 + 0.5 + 2


def test_a_timeline_says_what_a_rank_did_when():
    computes, sends, waits = outcome(PASS_ON).timeline(0)
    assert computes == ("computes", 0, 1, None) and sends == ("sends", 1, 1.5, 1)
    assert waits == ("waits", 1.5, 5.5, 2)


def drawn_programs(seed, n=4):
    """Random programs that come to an end: all sends to a rank before it waits for them."""
    draw = random.Random(seed)
    programs = [[] for _ in range(n)]
    for _ in range(12):
        frm, to = draw.sample(range(n), 2)
        programs[frm] += [Work(draw.randrange(4)), Send(to, NUMBER * draw.randrange(1, 9), "x")]
        programs[to] += [Wait(frm, "x"), Work(draw.randrange(3))]
    return programs


async def follow(me, steps):
    """Do what a program of `schedule.events` says."""
    for step in steps:
        if isinstance(step, Work):
            me.compute(step.seconds)
        elif isinstance(step, Send):
            await me.send(step.to, zeros(int(step.size) // NUMBER), step.tag)
        else:
            await me.receive(step.source, step.tag)


@pytest.mark.parametrize("seed", range(8))
def test_times_are_those_of_the_schedules(seed):
    """The same programs on the same cluster, as coroutines and as lists of steps."""
    programs = drawn_programs(seed)
    links = {"inside": Link(40.0, 0.25), "between": Link(8.0, 1.0)}
    cluster = Cluster((2, 2), **links, speeds={1: 0.5})
    found = run(follow, cluster, lambda me: [programs[me.rank]])
    there = events.run(programs, cluster, shared_ports=True)
    assert found.run == there and found.steps == programs


def test_it_comes_out_the_same_every_time():
    programs = drawn_programs(3)
    one, other = (run(follow, Cluster((4,)), lambda me: [programs[me.rank]]) for _ in range(2))
    assert one.run == other.run and one.peaks == other.peaks


def test_a_message_is_a_copy_and_counts_where_it_is():
    out = outcome(
        "async def program(me):\n"
        "    if me.rank == 0:\n"
        "        x = zeros(100)\n"
        "        await me.send(1, [x, 7, 'name', None])\n"
        "        del x\n"
        "        return (await me.receive(1)).item()\n"
        "    if me.rank == 1:\n"
        "        x, seven, name, none = await me.receive(0)\n"
        "        await me.send(0, vector([seven]))\n"
        "        return len(x), name, none\n"
    )
    assert out.results == [7, (100, "name", None), None] and out.peaks == [100, 101, 0]
    assert out.run.sent == [NUMBER * 101, NUMBER, 0]


def test_tags_choose_among_messages():
    out = outcome(
        "async def program(me):\n"
        "    if me.rank == 0:\n"
        "        await me.send(1, 1, 'one')\n"
        "        await me.send(1, 2, 'two')\n"
        "    if me.rank == 1:\n"
        "        return [await me.receive(0, 'two'), await me.receive(0, 'one')]\n"
    )
    assert out.results[1] == [2, 1]


def test_a_deadlock_says_who_waits_for_whom():
    circle = "async def program(me):\n    await me.receive((me.rank + 1) % me.size)"
    assert fault(circle) == (
        "deadlock: rank 0 waits for a message of rank 1; rank 1 waits for a message of rank 2; "
        "rank 2 waits for a message of rank 0; and so round in a circle"
    )
    ended = "async def program(me):\n    if me.rank == 1: await me.receive(2, 'end')"
    assert fault(ended) == "deadlock: rank 1 waits for a message 'end' of rank 2; rank 2 has ended"


SENDS = "async def program(me):\n    if me.rank == 0: {}"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("me.send(1, 1)", "rank 0 calls me.send(1, ...) without await: nothing happens"),
        ("zeros(2) + me.receive(1)", "rank 0, line 2: + me.receive(1) without await: expected"),
        ("await me.send(1, 1)", "rank 0 sends a message to rank 1 that rank 1 never receives"),
        ("await me.send(3, 1)", "line 2: me.send(3, ...): expected a rank, 0 to 2"),
        ("await me.send(0, 1)", "me.send(0, ...): a rank has no link to itself"),
        ("await me.send(1, {1})", "a message of set {1}: expected a tensor, a number, or a list"),
        ("raise KeyError(3)", "rank 0, line 2: KeyError: 3"),
        (
            "\n        while True: pass",
            "rank 0 has done 1,000,000 steps and is in line 3",
        ),
    ],
)
def test_what_a_program_does_wrong_is_said(does, said):
    assert said in fault(SENDS.format(does))


def test_messages_without_end_are_an_endless_loop(monkeypatch):
    monkeypatch.setattr(ranks, "MOST_TURNS", 500)
    text = (
        "async def program(me):\n"
        "    while True:\n"
        "        await me.send((me.rank + 1) % 3, 1); await me.receive((me.rank - 1) % 3)\n"
    )
    assert "rank 0 has asked 500 times for messages: an endless loop?" in fault(text)


def test_a_program_must_be_a_coroutine():
    assert "expected `async def program(me, ...)`" in fault("def program(me): return 1")


def test_ranks_take_turns_and_none_waits_for_the_clock():
    """Who is last in time may be first in turn: only messages order them."""
    text = (
        "async def program(me):\n"
        "    me.compute(9 - 4 * me.rank)\n"
        "    for r in range(me.size):\n"
        "        if r != me.rank: await me.send(r, me.rank)\n"
        "    return [await me.receive(r) for r in range(me.size) if r != me.rank]\n"
    )
    out = outcome(text)
    assert out.results == [[b for b in range(3) if b != a] for a in range(3)]
    assert [span.what for span in out.timeline(2)] == ["computes", "sends", "sends", "waits"]
