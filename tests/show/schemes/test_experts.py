"""Who has which experts, where visits are, and what a box drops."""

import pytest
from charts import drawn, said, words

from mathlib.checks import InputError
from mathlib.show.schemes import experts


def test_groups_have_all_experts_and_columns_the_same():
    told = said(drawn(experts.groups(8, 4, 8)))
    assert "rank 1: 2, 3; rank 2: 4, 5" in told and "rank 5: 2, 3" in told
    assert words(drawn(experts.groups(4, 4, 4))).count("all-to-all: dispatch and combine") == 1
    with pytest.raises(InputError, match="expert"):
        experts.groups(8, 3)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_dispatch_brings_every_visit_to_its_expert_and_combine_brings_it_home(ranks):
    home, away, back = experts.placed(ranks)
    assert home == back and sorted(sum(home, [])) == sorted(sum(away, []))
    for r, mine in enumerate(away):
        assert {expert * ranks // 4 for expert, _ in mine} == {r}
    assert all(owner == r for r, mine in enumerate(home) for _, owner in mine)
    assert f"rank 0 has {len(away[0])} visits" in said(drawn(experts.exchanged(ranks)))


def test_small_boxes_drop_and_large_ones_do_not():
    assert "buffers of 4 drop 2 of 16" in said(drawn(experts.boxes()))
    assert "buffers of 6 drop 0 of 16" in said(drawn(experts.boxes(1.5)))
