"""Data of the clinic: a batch, a sample, a buffer on the wrong ranks."""

import pytest
from solutions import assert_case, assert_mend

from mathlib.workshop.clinic import data

SAID = {
    "same-batch": "rank 0 has the weights of one rank alone: every rank reads the same batches",
    "seeds-differ": "sample 0 is on no rank",
    "padded-samples": "rank 0 counts 6 samples of 5: some are counted twice",
    "own-buffers": "rank 0 still has its own running mean",
}
MENDS = [  # another mend, and what is said of it; "": right
    (
        "same-batch",
        ("read(step)", "read(step + me.rank * steps)"),
        "rank 0 is wrong in 18 of 18 numbers",
    ),
    ("seeds-differ", ("shuffled(seed + me.rank)", "shuffled(seed + 1)"), "rank 0 has samples"),
    ("seeds-differ", ("me.rank :: me.size]", ":]"), "sample 0 is on ranks 0 and 1"),
    (
        "padded-samples",
        ("(count + me.size - 1) // me.size", "count // me.size"),
        "has 5/4 times what is expected",
    ),
    (
        "padded-samples",
        ("% count for i in range(each)", "for i in range(each)"),
        "rank 1, line 4: right(5): expected a sample, 0 to 4",
    ),
    (
        "own-buffers",
        ("    return running\n", "    return await all_reduce(me, running)\n"),
        "rank 0 has the sum of all running means: expected their mean",
    ),
]


def test_each_case_is_here():
    assert [one.name for one in data.CASES] == list(SAID)


@pytest.mark.parametrize(("name", "words"), SAID.items())
def test_a_case_shows_its_fault_and_its_edit_mends_it(name, words):
    assert_case(name, words)


@pytest.mark.parametrize(("name", "edit", "words"), MENDS)
def test_another_mend(name, edit, words):
    assert_mend(name, edit, words)
