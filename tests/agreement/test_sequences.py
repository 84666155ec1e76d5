"""What context parallelism sends on odd ranks: formula, program and operating system, to the byte;
and by how much less Ulysses does. The chapter's notebook compares four ranks.
"""

import pytest

from mathlib.trials import sequences


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_bytes_of_ring_and_ulysses_are_those_of_the_formula_and_of_the_system(ranks):
    found = sequences.counted(ranks)
    assert all(formula == system for formula, system in found.values()), found
    if ranks == 3:  # with as many key-value heads: 4 (N-1)/N of a ring's 2 (N-1) + N in 32 bits
        assert found["Ulysses"][1] / found["ring, plain"][1] == pytest.approx(8 / 21)
