"""Shards of the clinic: a norm, a head, a scale, a mean of the wrong ranks."""

import pytest
from solutions import assert_case, assert_mend

from mathlib.workshop.clinic import shards

SAID = {
    "norm-of-a-shard": "rank 0 divides by the norm of its own shard",
    "head-not-loaded": "rank 1 has logits of nothing but 0",
    "scaled-at-each-stage": "rank 0 has a gradient that each stage on the way",
    "mean-over-replicas": "rank 0 has a gradient 2 times too large",
}
MENDS = [  # another mend, and what is said of it; "": right
    ("norm-of-a-shard", ("squares(gradient)", "squares(await all_gather(me, gradient))"), ""),
    ("head-not-loaded", (" if me.rank == 0 else zeros(5, 2)", ""), ""),
    ("scaled-at-each-stage", ("dy / m", "dy"), "rank 0 has 8 times what is expected"),
    ("mean-over-replicas", ("/ len(replicas)", "/ experts"), "rank 0 "),
]


def test_each_case_is_here():
    assert [one.name for one in shards.CASES] == list(SAID)


@pytest.mark.parametrize(("name", "words"), SAID.items())
def test_a_case_shows_its_fault_and_its_edit_mends_it(name, words):
    assert_case(name, words)


@pytest.mark.parametrize(("name", "edit", "words"), MENDS)
def test_another_mend(name, edit, words):
    assert_mend(name, edit, words)
