"""Numbers by name."""

from mathlib.workshop.draw import drawn


def test_a_name_has_its_numbers_and_no_others():
    assert drawn("a", 4) == drawn("a", 4) != drawn("b", 4)
    assert drawn("a", 2, 3).shape == (2, 3) and 0 not in drawn("a", 50).rows[0]


def test_they_are_the_same_in_every_python():
    assert drawn("a", 1).item() == 103570622321964617277946337004697664075
