"""What compression sends on odd ranks: formula, program and operating system, to the byte; and a
meeting of local steps.  The chapter's notebook compares two ranks, its trial four.
"""

import pytest

from mathlib.trials import links


@pytest.mark.parametrize("ranks", [1, 3])
def test_bytes_of_codes_are_those_of_the_formula_and_of_the_system(ranks):
    for name, (formula, program, system) in links.sent(ranks).items():
        assert program == pytest.approx(formula, rel=1e-12), name
        assert system == pytest.approx(program, rel=1e-12), name
