"""The team's nodes, and when ranks are through with shares that fit their speed or do not."""

import pytest
from charts import drawn, said

from mathlib.checks import InputError
from mathlib.show.schemes import unequal


def test_the_team_has_an_old_node_a_hot_gpu_and_a_slow_port():
    told = said(drawn(unequal.team()))
    assert "rank 11 is hot" in told and "port is slow" in told


def test_shares_by_speed_end_together():
    assert "equal shares, 6; by speed, 4" in said(drawn(unequal.by_speed()))
    assert "equal shares, 4; by speed, 3" in said(drawn(unequal.by_speed((2, 2), (1, 3), (0.5, 1))))
    with pytest.raises(InputError, match="speeds"):
        unequal.by_speed(speeds=(0, 1, 1, 1))


def test_a_life_loses_what_the_next_one_computes_again():
    assert "4 steps are lost" in said(drawn(unequal.lives([(0, 5), (3, 5), (3, 8)], 8)))
    assert "0 steps are lost" in said(drawn(unequal.lives([(0, 8)], 8)))
    with pytest.raises(InputError, match="steps"):
        unequal.lives([], 0)
