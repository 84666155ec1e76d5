"""Accumulation in the clinic: what is divided, summed or counted too often."""

import pytest
from solutions import assert_case, assert_mend

from mathlib.workshop.clinic import accumulation

SAID = {
    "scaled-each-time": "rank 0 has a moving average: early micro-batches weigh less",
    "reduced-each-time": "rank 0 has summed what was a sum over ranks",
    "last-micro-batch-only": "rank 0, numbers 0 to 8: ",
    "rate-of-a-micro-batch": "rank 0 counts micro-batches where the schedule counts steps",
}
MENDS = [  # another mend, and what is said of it; "": right
    (
        "scaled-each-time",
        ("        gradient = gradient / len(batches)\n", ""),
        "rank 0 has 3 times what is expected",
    ),
    (
        "reduced-each-time",
        ("gradient += model", "gradient = model"),
        "rank 0 is wrong in 18 of 18 numbers",
    ),
    ("last-micro-batch-only", ("shard = await reduce", "shard = shard + await reduce"), ""),
    ("rate-of-a-micro-batch", ("schedule(step)", "schedule(step // len(batches))"), ""),
    (
        "rate-of-a-micro-batch",
        ("            step += 1\n", ""),
        "rank 0 is wrong in 18 of 18 numbers",
    ),
]


def test_each_case_is_here():
    assert [one.name for one in accumulation.CASES] == list(SAID)


@pytest.mark.parametrize(("name", "words"), SAID.items())
def test_a_case_shows_its_fault_and_its_edit_mends_it(name, words):
    assert_case(name, words)


@pytest.mark.parametrize(("name", "edit", "words"), MENDS)
def test_another_mend(name, edit, words):
    assert_mend(name, edit, words)
