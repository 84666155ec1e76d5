"""Hangs in the clinic: who leaves, who does not answer, and who comes in another order."""

import pytest
from solutions import assert_case, assert_mend

from mathlib.workshop.clinic import hangs

SAID = {
    "left-the-barrier": "deadlock: rank 0 waits for a message of rank 1; rank 1 has ended",
    "own-clock": "deadlock: rank 1 waits for a message of rank 0; rank 0 has ended",
    "no-tokens": "deadlock: rank 1 waits for a message of rank 0; rank 0 has ended",
    "order-of-its-own": "rank 0 has sums of different layers",
}
MENDS = [  # another mend, and what is said of it; "": right
    ("left-the-barrier", ("    await barrier(me)\n", ""), "rank 0 does not come to the barrier"),
    ("left-the-barrier", ("me.rank > 0", "me.rank < 0"), "rank 1 saves, too: expected None"),
    ("own-clock", ("on = clock < limit", "on = step < 3"), "rank 0 is wrong in 6 of 6 numbers"),
    (
        "no-tokens",
        ("if len(came)", "if len(parts[r])"),
        "deadlock: rank 0 waits",
    ),
    ("order-of-its-own", ("in ready", "in reversed(range(len(gradients)))"), ""),
    (
        "order-of-its-own",
        ("for layer in range", "for layer in ready[:0] or range"),
        "rank 0 has sums of different layers",
    ),
]


def test_each_case_is_here():
    assert [one.name for one in hangs.CASES] == list(SAID)


@pytest.mark.parametrize(("name", "words"), SAID.items())
def test_a_case_shows_its_fault_and_its_edit_mends_it(name, words):
    assert_case(name, words)


@pytest.mark.parametrize(("name", "edit", "words"), MENDS)
def test_another_mend(name, edit, words):
    assert_mend(name, edit, words)
