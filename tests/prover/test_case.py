"""What is trained: the same in one process, and refused where it cannot be equal."""

import pytest

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.prover.case import case


def test_one_process_draws_the_same_and_has_all_micro_batches():
    lay = Layout(data=2, tensor=2, expert=2, pipeline=2, micro_batches=3)
    many = case(lay, seed=3)
    one = many.on_one()
    assert many.drawn == one.drawn
    assert one.layout.world == 1 and one.schedule.micro_batches == 6
    assert case(lay, seed=4).drawn.weights != many.drawn.weights


def test_masks_and_experts_are_uneven_and_the_last_word_occurs():
    drawn = case(Layout(data=2, expert=2, micro_batches=2)).drawn
    assert all(row.count(0) == 1 and row[-1] for row in drawn.counts)
    assert drawn.words[0][0] == 10
    assert all(a != b for row in drawn.chosen for a, b in row)


def test_copies_of_parameters_are_found():
    tied = case(Layout(pipeline=2, micro_batches=2))
    assert tied.holders["embedding"] == [0, 1] and tied.holders["norm"] == [1]
    both = case(Layout(pipeline=2, micro_batches=4), schedule="dualpipe")
    assert both.holders["layers.0.out"] == [0, 1] == both.holders["norm"]


@pytest.mark.parametrize(
    ("layout", "options", "said"),
    [
        (Layout(pipeline=2, micro_batches=2), {"schedule": "2bw"}, "changes weights"),
        (Layout(pipeline=2, micro_batches=2), {"schedule": "zb"}, "schedule|order = 'zb'"),
        (Layout(pipeline=2, chunks=2, micro_batches=2), {"schedule": "1f1b"}, "chunks = 2"),
        (Layout(context=2), {"order": "zag"}, "order = 'zag'"),
        (Layout(data=2), {"seed": -1}, "seed = -1"),
        (Layout(data=2), {"tied": 2}, "tied = 2"),
        (Layout(recompute="selective"), {}, "recompute = 'selective'"),
    ],
)
def test_what_cannot_be_equal_is_refused(layout, options, said):
    with pytest.raises(InputError, match=said):
        case(layout, **options)
