"""Faults: enough of them, of every axis, each with its sentence, and most from real threads."""

import re

import pytest

from mathlib.checks import InputError
from mathlib.prover import faults
from mathlib.prover.prove import prove


def test_there_are_enough_and_each_says_what_is_wrong():
    every = faults.every()
    assert len(every) >= 60 and {one.axis for one in every.values()} == set(faults.AXES)
    sentences = [one.says for one in every.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(re.fullmatch(r"[A-Z].*\.", sentence) for sentence in sentences)


def test_many_are_from_threads_that_are_named():
    sources = [one.source for one in faults.every().values() if one.source]
    assert len(sources) >= 60
    assert all(re.match(r"[\w.-]+/[\w.-]+(#\d+|, chapter \d+)$", source) for source in sources)


def test_a_layout_with_a_fault_is_right_without_it():
    wrong = {name: one for name, one in faults.every().items() if not prove(one.case()).equal}
    assert not wrong


def test_a_near_miss_is_told():
    with pytest.raises(InputError, match="did you mean query-key-norm"):
        faults.find("query-norm")
