"""Widths of words: no letter stands twice in the table, lines keep within their room."""

from hypothesis import given
from hypothesis import strategies as st

from mathlib.show.kit import letters


def test_no_letter_stands_twice():
    written = "".join(letters.GROUPS.values())
    assert len(set(written)) == len(written) == len(letters.ADVANCE)


def test_a_word_is_as_wide_as_its_letters():
    assert letters.width("il", 10) == 2 * 0.26 * 10
    assert letters.width("W", 10) > letters.width("m", 10) > letters.width("a", 10)
    assert letters.width("a", 10, bold=True) == letters.width("a", 10) * letters.BOLD


@given(st.lists(st.text("abc mW", min_size=1, max_size=9), max_size=12), st.floats(20, 300))
def test_lines_hold_all_words_and_keep_within_the_room(parts, room):
    words = " ".join(" ".join(parts).split())
    found = letters.lines(words, room, 12)
    assert " ".join(found) == words
    for line in found:
        assert letters.width(line, 12) <= room or " " not in line
