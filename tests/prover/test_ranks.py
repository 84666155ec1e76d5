"""Simulated ranks: collectives give what they promise, and who waits for ever is named."""

import pytest

from mathlib.prover.ranks import RECEIVE, SEND, Ranks, Request, Stuck, alone

GROUP = (2, 0, 1)  # not in the order of ranks


def asks(rank, kind, payload, group=GROUP):
    return (yield Request(kind, group, payload, "x"))


def all_ask(kind, payloads):
    """Of each rank of the group, in its order."""
    programs = {r: asks(r, kind, x) for r, x in zip(GROUP, payloads, strict=True)}
    found = Ranks(programs).run()
    return [found[r] for r in GROUP]


def test_collectives_give_each_rank_of_a_group_its_part_in_the_groups_order():
    ones = [[[1]], [[20]], [[300]]]
    assert all_ask("all-reduce", ones) == [[[321]]] * 3
    assert all_ask("all-gather", ones) == [ones] * 3
    assert all_ask("ring shift", ones) == [ones[2], ones[0], ones[1]]
    pieces = [[[[10 * r + s]] for s in range(3)] for r in range(3)]
    assert all_ask("reduce-scatter", pieces) == [[[30 + 3 * s]] for s in range(3)]
    assert all_ask("all-to-all", pieces) == [[[[10 * s + r]] for s in range(3)] for r in range(3)]
    for kind in ("all-reduce", "ring shift"):
        assert alone(kind, [[5]]) == [[5]]


def test_messages_wait_for_their_receive_and_carry_a_tag():
    def sends():
        for tag in ("a", "b"):
            yield Request(SEND, (0, 1), tag * 2, tag)

    def receives():
        second = yield Request(RECEIVE, (0, 1), None, "b")
        return [second, (yield Request(RECEIVE, (0, 1), None, "a"))]

    assert Ranks({0: sends(), 1: receives()}).run()[1] == ["bb", "aa"]


def in_turn(*calls):
    def program():
        for call in calls:
            yield Request(call[0], call[1], call[2] if len(call) > 2 else [[1]], "x")

    return program()


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        (
            {0: [("all-reduce", (0, 1))], 1: []},
            "rank 0 waits for rank 1 in the all-reduce of x among ranks 0, 1; rank 1 is at its end",
        ),
        (
            {0: [("all-reduce", (0, 1))], 1: [("all-reduce", (1, 2))], 2: [("ring shift", (2, 0))]},
            "rank 0 waits for rank 1 in the all-reduce of x among ranks 0, 1; rank 1 waits for "
            "rank 2 in the all-reduce of x among ranks 1, 2; rank 2 waits for rank 0 in the ring "
            "shift of x among ranks 2, 0",
        ),
        (
            {0: [("receive", (1, 0))], 1: [("receive", (0, 1))]},
            "rank 0 waits for rank 1 in the message of x; rank 1 waits for rank 0 in the message",
        ),
        (
            {0: [("all-reduce", (0, 1))], 1: [("all-reduce", (0, 1), [[1, 2]])]},
            r"do not match: rank 0 is in .* \(1 x 1\), rank 1 in .* \(1 x 2\)",
        ),
        (
            {0: [("all-reduce", (0, 1))], 1: [("all-gather", (0, 1))]},
            "rank 0 is in the all-reduce of x .*, rank 1 in the all-gather of x",
        ),
    ],
)
def test_who_waits_for_whom_is_named(programs, said):
    with pytest.raises(Stuck, match=said):
        Ranks({rank: in_turn(*calls) for rank, calls in programs.items()}).run()
