"""A sketch says in words what its picture shows."""

from mathlib.workshop.sketch import Part, fault, of, parts, sketch, words


def test_a_row_for_each_rank_before_and_after():
    drawn = sketch(2, lambda r: [of(r), Part("weights")], lambda r: [of(0, 1)])
    assert drawn.terms == 2 and drawn.rows[1] == [[frozenset({0, 1})]] * 2
    assert words(drawn) == (
        "before: rank 0: a sum of 0, weights; rank 1: a sum of 1, weights. "
        "after: rank 0: a sum of 0 + 1; rank 1: a sum of 0 + 1"
    )


def test_there_may_be_other_ranks_after():
    drawn = sketch(2, lambda r: parts("weights", r), lambda r: [], later=1, who="end")
    assert words(drawn).endswith("after: end 0: nothing") and len(drawn.rows[0]) == 2


def test_a_fault_stands_beside_what_is_right():
    drawn = fault(1, lambda r: parts("other", "/ 2"), lambda r: parts("other", "/ 4"))
    said = "as it is written: rank 0: other / 2. as it should be: rank 0: other / 4"
    assert words(drawn) == said
