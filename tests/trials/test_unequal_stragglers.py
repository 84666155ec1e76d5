"""Published batches by speed and stragglers, beside the laws."""

import pytest

from mathlib.schedule import waits
from mathlib.trials import unequal_stragglers as published


def test_a_published_speed_is_what_the_slowest_allows():
    timm = published.timm()
    assert timm.predicted == timm.printed == 2500 and timm.needed == 750


@pytest.mark.parametrize("ranks", [16, 1024])
def test_how_rare_a_slow_rank_must_be(ranks):
    chance = published.chance(ranks)
    assert waits.step(ranks=ranks, chance=chance, times=1.5) == pytest.approx(1.1)
