"""What adapters send on odd ranks and with other ranks: formula, program and operating system, to
the byte. The chapter's notebook compares three ranks.
"""

import pytest

from mathlib.trials import after_ranks


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_bytes_of_adapters_are_those_of_the_formula_and_of_the_system(ranks):
    for method, one in after_ranks.replicas(ranks).items():
        assert one.formula == one.program == one.system, method


def test_what_fsdp_gathers_does_not_depend_on_the_ranks():
    for method, one in after_ranks.sharded(4).items():
        assert one == after_ranks.told(method), method
