"""Tensors of the clinic: split in the wrong place, masked or shifted on a rank alone."""

import pytest
from solutions import assert_case, assert_mend

from mathlib.workshop.clinic import tensors

SAID = {
    "bias-each-rank": "rank 0 has the bias 2 times",
    "fused-gate-up": "rank 0 multiplies gates with gates and ups with ups",
    "drawn-on-one-rank": "rank 1 drops other columns than rank 0",
    "shifted-after-split": "rank 0 has no target for its last token",
}
MENDS = [  # another mend, and what is said of it; "": right
    ("bias-each-rank", (" + bias", ""), "rank 0 has no bias"),
    ("bias-each-rank", ("+ bias", "+ bias / me.size"), ""),
    (
        "drawn-on-one-rank",
        ("    if me.rank == 0:\n        draw(1)  # which data to read\n", ""),
        "rank 0 ",
    ),
    (
        "shifted-after-split",
        ("tokens[1:], zeros(1)", "tokens[1:], tokens[:1]"),
        "rank 0 is wrong in 1 of 4 numbers, first in number 3",
    ),
]


def test_each_case_is_here():
    assert [one.name for one in tensors.CASES] == list(SAID)


@pytest.mark.parametrize(("name", "words"), SAID.items())
def test_a_case_shows_its_fault_and_its_edit_mends_it(name, words):
    assert_case(name, words)


@pytest.mark.parametrize(("name", "edit", "words"), MENDS)
def test_another_mend(name, edit, words):
    assert_mend(name, edit, words)
