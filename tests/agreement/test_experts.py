"""What expert parallelism sends on odd ranks: formula, program and operating system, to the byte.
The chapter's notebook compares four ranks.
"""

import pytest

from mathlib.trials import experts


@pytest.mark.parametrize(("ranks", "P", "routed"), [(1, 1, 8), (2, 1, 8), (3, 3, 12)])
def test_bytes_of_rows_and_counts_are_those_of_the_formula_and_of_the_system(ranks, P, routed):
    for formula, program, system in experts.counted(ranks, P, routed).values():
        assert formula == pytest.approx(program, rel=1e-12) == system
