"""The clock against a definition of time written differently, and the oracle's numbers."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.schedule import check, orders
from mathlib.schedule.actions import Schedule
from mathlib.schedule.simulate import simulate, until_stuck
from mathlib.schedule.times import Times


def ends(schedule: Schedule, times: Times) -> dict[tuple, float]:
    """When each action ends, by asking backwards from it: latency only, no bandwidth."""
    took, last = times.of(schedule), schedule.model_chunks - 1
    before = {a: b for row in schedule.actions for b, a in zip(row, row[1:], strict=False)}
    whole = {(i, c) for row in schedule.actions for kind, i, c in row if kind == "B"}

    @cache
    def end(kind: str, i: int, c: int) -> float:
        s = schedule.stage_of(i, c)
        begin = end(*before[kind, i, c]) if (kind, i, c) in before else 0.0
        source = None
        if kind == "F" and c:
            source = ("F", i, c - 1)
        elif kind in "BI" and c < last:
            source = ("B" if (i, c + 1) in whole else "I", i, c + 1)
        if source:
            hop = times.message if schedule.stage_of(*source[1:]) != s else 0.0
            begin = max(begin, end(*source) + hop)
        return begin + took[s][kind][c]

    return {action: end(*action) for row in schedule.actions for action in row}


SIZES = st.tuples(st.integers(1, 5), st.integers(1, 4))  # stages, micro-batches / stages
UNITS = st.integers(0, 8).map(lambda n: n / 2)


def some(name: str, p: int, more: int) -> Schedule:
    """A schedule of that order, with sizes it accepts."""
    if name == "dualpipe":
        p, more = 2 * p, 2 * more
    return orders.make(name, stages=p, micro_batches=p * more)


@given(st.sampled_from(list(orders.ORDERS)), SIZES, UNITS, UNITS, UNITS, UNITS)
def test_the_clock_is_the_definition(name, sizes, forward, inputs, weight, message) -> None:
    schedule = some(name, *sizes)
    times = Times(forward=forward, backward=inputs + weight, weight=weight, message=message)
    found, wanted = simulate(schedule, times), ends(schedule, times)
    for actions, clock in zip(schedule.actions, found.ends, strict=True):
        assert clock == pytest.approx([wanted[action] for action in actions])


# forward 1, backward 2, free messages: total, and what stage 0 holds
ORACLE = [
    (4, 8, "gpipe", {}, 33, 8),
    (4, 8, "1f1b", {}, 33, 4),
    (4, 8, "interleaved", {"chunks": 2}, 28.5, 5.5),
    (4, 8, "interleaved", {"chunks": 4}, 26.25, 4.75),
    (8, 32, "gpipe", {}, 117, 32),
    (8, 32, "1f1b", {}, 117, 8),
    (8, 32, "interleaved", {"chunks": 2}, 106.5, 11.5),
    (8, 32, "interleaved", {"chunks": 4}, 101.25, 9.75),
]


@pytest.mark.parametrize(("p", "m", "name", "options", "total", "held"), ORACLE)
def test_the_oracle_numbers(p, m, name, options, total, held) -> None:
    found = simulate(orders.make(name, stages=p, micro_batches=m, **options))
    assert (found.total, found.peak(0)) == (total, held)
    assert found.busy == [3 * m] * p
    assert found.bubble_over_ideal == total / (3 * m) - 1
    assert found.bubble_over_total == pytest.approx(1 - 3 * m / total, abs=1e-15)


def test_two_stages_by_hand() -> None:
    schedule = orders.make("1f1b", stages=2, micro_batches=2)
    found = simulate(schedule, Times(message=0.5))
    assert found.begins == [[0, 1, 5, 8], [1.5, 2.5, 4.5, 5.5]]
    assert found.ends == [[1, 2, 7, 10], [2.5, 4.5, 5.5, 7.5]]
    assert found.alive(0) == [(0, 0), (0, 1), (1, 2), (7, 1), (10, 0)]
    assert found.alive(1) == [(0, 0), (1.5, 1), (4.5, 0), (4.5, 1), (7.5, 0)]
    assert found.messages == {(0, 1): 2, (1, 0): 2}
    assert (found.total, found.busy, found.longest_stage) == (10, [6, 6], 10)


def test_a_link_carries_one_message_at_a_time() -> None:
    """Two forwards of 1 end at 1 and 2; messages of 3 leave at 4 and 7, and arrive 0.5 later."""
    schedule = orders.make("gpipe", stages=2, micro_batches=2)
    times = Times(message=0.5, size=6.0, bandwidth=2.0)
    found = simulate(schedule, times)
    assert found.begins[1][:2] == [4.5, 7.5]
    assert found.bytes_sent == 24
    waits = simulate(schedule, replace(times, blocking=True))
    assert waits.begins[0][:2] == [0, 4.5] and waits.begins[1][:2] == [4.5, 9]


def test_between_i_and_w_only_a_share_is_held() -> None:
    found = simulate(orders.make("zb-h1", stages=3, micro_batches=6))
    assert [found.peak(s) for s in range(3)] == [3, 3, 3]
    assert [found.peak(s, after_input=0.5) for s in range(3)] == [3, 2.5, 2]
    assert found.alive(2)[-1][1] == 0
    assert found.alive(2, after_input=0.25)[2] == (4, 0.25)


def test_interleaving_sends_v_times_as_much() -> None:
    sent = [simulate(orders.make("1f1b", stages=4, micro_batches=8)).messages.total()]
    for v in (2, 4):
        schedule = orders.make("interleaved", stages=4, micro_batches=8, chunks=v)
        sent.append(simulate(schedule).messages.total())
    assert sent == [2 * 8 * 3, 2 * 8 * 7, 2 * 8 * 15]
    vee = simulate(orders.make("zb-v", stages=4, micro_batches=8)).messages
    assert vee.total() == 2 * 8 * 6, "the middle of the V stays on its stage"


def test_a_slow_stage_sets_the_pace() -> None:
    schedule = orders.make("1f1b", stages=4, micro_batches=32)
    found = simulate(schedule, Times(slow={2: 2.0}))
    assert found.busy == [96, 96, 192, 96]
    assert found.total == 2 + 192 + 1 + 4, "filling, stage 2, its wait for stage 3, draining"


def test_versions_are_those_of_the_weights() -> None:
    assert simulate(orders.make("pipedream", stages=4, micro_batches=8)).versions == [4, 3, 2, 1]


def test_what_is_left_out_is_simulated_as_far_as_it_is_written() -> None:
    schedule = orders.make("1f1b", stages=2, micro_batches=2)
    begun = replace(schedule, actions=[schedule.actions[0][:2], schedule.actions[1][:1]])
    assert simulate(begun).ends == [[1, 2], [2]]
    nothing = simulate(replace(schedule, actions=[[], []]))
    assert nothing.total == nothing.bubble_over_ideal == nothing.bubble_over_total == 0
    assert nothing.longest_stage == 0 and nothing.peak(1) == 0
    with pytest.raises(InputError, match="stage 0 lacks F0 of chunk 0"):
        simulate(replace(schedule, actions=[[], schedule.actions[1]]))


@st.composite
def mutated(draw) -> Schedule:
    """An order with two actions swapped, one left out, one done twice, or one given away."""
    schedule = some(draw(st.sampled_from(list(orders.ORDERS))), *draw(SIZES))
    lists = [list(actions) for actions in schedule.actions]
    row = draw(st.sampled_from(lists))
    here, there = draw(st.integers(0, len(row) - 1)), draw(st.integers(0, len(row) - 1))
    how = draw(st.sampled_from(["swap", "drop", "double", "move", "give"]))
    if how == "swap":
        row[here], row[there] = row[there], row[here]
    elif how == "double":
        row.insert(there, row[here])
    elif how == "move":
        row.insert(there, row.pop(here))
    else:
        gone = row.pop(here)
        if how == "give":
            draw(st.sampled_from(lists)).append(gone)
    return replace(schedule, actions=lists)


def true_reason(schedule: Schedule, said: str) -> bool:
    """Whether what a refusal says can be seen in the lists."""
    rows = [[str(action) for action in row] for row in schedule.actions]
    everything = [word for row in rows for word in row]
    if " lacks " in said:
        return said.split(" lacks ")[1] not in everything
    if " times: " in said:
        word = said.split(" has ")[1].split(": ")[0].rsplit(" ", 2)[0]
        return everything.count(word) > 1
    if "which is on stage" in said:
        stage, word = said.split("stage ")[1].split(" ")[0], said.split(" has ")[1].split(",")[0]
        return word in rows[int(stage)]
    for part in said.split("for each other: ")[1].split("; "):
        s, rest = part.removeprefix("stage ").split(" waits at ")
        word, lacks = rest.split(" for ")
        own = rows[int(s)]
        if lacks.endswith(", later in its own list"):
            if own.index(lacks.split(",")[0]) < own.index(word):
                return False
        else:
            lacks, other = lacks.split(" on stage ")
            if lacks not in rows[int(other)] or word not in own:
                return False
    return True


@given(mutated(), st.sampled_from([Times(), Times(message=0.5), Times(size=1, bandwidth=1)]))
def test_what_the_check_passes_the_clock_finishes(schedule, times) -> None:
    try:
        check.validate(schedule)
    except InputError as refused:
        assert true_reason(schedule, str(refused)), str(refused)
        return
    found = simulate(schedule, times)
    assert [len(row) for row in found.ends] == [len(row) for row in schedule.actions]
    assert found.alive(0)[-1][1] == 0
    check.validate(schedule, posted=check.receives_to_post(schedule))


@given(mutated())
def test_what_the_clock_refuses_the_check_refuses_too(schedule) -> None:
    """And with the same words; what it finishes may still be double, or lack its end."""
    try:
        simulate(schedule)
    except InputError as refused:
        with pytest.raises(InputError) as same:
            check.validate(schedule)
        assert str(same.value) == str(refused)


def test_what_waits_for_ever_is_simulated_until_it_does():
    whole = orders.make("1f1b", stages=3, micro_batches=4)
    assert until_stuck(whole).ends == simulate(whole).ends
    rows = [list(row) for row in whole.actions]
    rows[2] = rows[2][1:2] + rows[2][:1] + rows[2][2:]  # its first backward before its forward
    stuck = until_stuck(replace(whole, actions=rows))
    assert [len(row) for row in stuck.ends] == [3, 2, 0]
    assert [len(row) for row in stuck.schedule.actions] == [3, 2, 0]
    assert stuck.total == 3.0 and stuck.peak(0) == 3
