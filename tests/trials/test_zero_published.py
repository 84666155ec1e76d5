"""The figures behind the verdicts: limits that move the right way, estimates as printed."""

import pytest

from mathlib.trials import zero_published


def test_more_latency_or_speed_or_messages_lower_the_limit_and_bytes_set_none():
    limits = [zero_published.tips(**way) for way in zero_published.WAYS.values()]
    assert limits == [0, 3162, 270]
    by_hop = zero_published.sensitivity(0.5)
    assert list(by_hop) == sorted(by_hop, reverse=True)
    assert all(row == sorted(row, reverse=True) for row in by_hop.values())
    assert all(list(column) == sorted(column) for column in zip(*by_hop.values(), strict=True))
    less = zero_published.sensitivity(0.45)[zero_published.HOP]
    for lower in (zero_published.partly_recomputed(), less):
        pairs = zip(lower, by_hop[zero_published.HOP], strict=True)
        assert all(some < of_all for some, of_all in pairs)
    assert 49 < zero_published.share_sent(264) < 51
    assert max(share for _, share in zero_published.curves()["bytes alone"]) < 50


def test_half_the_tokens_hide_less_than_half_and_twice_as_many_nearly_all():
    enough = zero_published.enough_tokens()
    assert zero_published.hides(enough / 2) < 0.5 and zero_published.hides(2 * enough) > 0.9
    assert zero_published.hides(2 * enough, stage=1) == 0
    assert zero_published.enough_tokens(50e9) == pytest.approx(8 * enough)


def test_groups_lose_nothing_and_estimates_are_as_printed():
    full = zero_published.fullest("llama2-7b")
    assert zero_published.grouped(full).total == pytest.approx(full.total)
    paper, documentation, code = zero_published.stage_two_estimates(64e9).values()
    assert (paper, documentation, code) == (142e9, 272e9, 146e9)
    assert zero_published.room_on_a_v100(234) < 16e9
    stages, strategies, deep = zero_published.recipes()
    assert (stages.total(), strategies.total(), deep) == (25, 23, 1)
    assert [row[0] for row in zero_published.tokens_needed()][0] == "Summit"


def test_the_chapters_answers_are_right():
    assert [zero_published.on_eight(1, b) for b in (1, 2, 4)] == [45.4, 67.1, 110.7]
    assert [zero_published.on_eight(stage, 4) for stage in (2, 3)] == [110.7, 97.7]
    assert zero_published.on_eight(1, 4, "full") == 39.9
    assert [round(zero_published.hides(n, 50e9), 2) for n in (4096, 8192)] == [0.49, 0.96]
    assert round(zero_published.enough_tokens(50e9)) in (7912, 7913)
