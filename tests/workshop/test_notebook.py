"""A puzzle in a notebook: the same words as `mathlib grade` has."""

import pytest
from solutions import edited

from mathlib.checks import InputError
from mathlib.workshop import grade, workshop
from mathlib.workshop.picture import picture


async def my_step(me, model, weights, batches, rate):
    seen = []
    for batch in batches:
        weights = weights - await mean_gradient(me, model.whole_gradient(weights, batch)) * rate
        seen.append(weights)
    return seen


async def mean_gradient(me, gradient):
    return await all_reduce(me, gradient) / me.size  # noqa: F821


async def save(me, shard, start, total):
    return [start, total, shard]


async def load(me, files, read):
    return read(0)[2]


def test_the_task_its_picture_and_the_start_are_shown():
    ring = workshop("ring")
    html, text = ring._repr_html_(), repr(ring)
    assert picture(ring.puzzle)._repr_html_() in html
    assert all(sentence in text for sentence in ring.puzzle.sentences)
    assert ring.start in f"{text}\n" and "async def program(me, gradient):" in html
    assert "github.com/karpathy/llama2.c/issues/522" in workshop("same-batch")._repr_html_()
    assert ring.hint(2)._repr_html_() == f"<p>Hint 2 of 3: {ring.puzzle.hints[1]}</p>"


def test_functions_of_cells_are_graded_the_program_first():
    told = workshop("ddp").grade(my_step, mean_gradient)
    assert repr(told).endswith("\n\nright") and "bytes sent" in told._repr_html_()
    assert "NameError: name 'mean_gradient'" in repr(workshop("ddp").grade(my_step))


def test_two_programs_of_a_puzzle_have_their_names():
    told = workshop("checkpoint").grade(save, load)
    assert "rank 0 returns a tensor of 5: expected a tensor of 7" in told._repr_html_()


def test_a_text_is_graded_too():
    assert repr(workshop("ring").grade(edited("ring"))).endswith("\n\nright")
    wrong = workshop("ring").grade(grade.find("ring").start)
    assert repr(wrong).endswith("rank 0 still has its own gradient")


def test_what_cannot_be_graded_is_refused():
    with pytest.raises(InputError, match="did you mean ring"):
        workshop("rnig")
    with pytest.raises(InputError, match="expected a program"):
        workshop("ring").grade()
    with pytest.raises(InputError, match="len: no source; expected a function of a cell"):
        workshop("ring").grade(len)
    with pytest.raises(InputError, match="hint = 4: expected one of 1, 2, 3"):
        workshop("ring").hint(4)
