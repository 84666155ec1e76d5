"""Schemes of the links chapter say what they draw."""

import pytest

from mathlib.checks import InputError
from mathlib.show.schemes import links


def test_what_they_say():
    assert "left over for the next step" in links.feedback()._repr_html_()
    assert "3 ranks: chunks go to their owners" in links.passes()._repr_html_()
    assert "with 2 whole ones, with 4 of a fragment each" in links.meetings()._repr_html_()


def test_fragments_divide_the_steps_and_a_pass_needs_two():
    with pytest.raises(InputError, match="fragments = 3"):
        links.meetings(4, 3)
    with pytest.raises(InputError, match="ranks = 1"):
        links.passes(1)
