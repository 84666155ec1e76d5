"""Bytes of three ways, counted and by formula; plans of steps over slow links by hand."""

import pytest

from mathlib.trials import pipeline_links as links


def test_counted_bytes_are_the_formulas():
    found, share = links.sent()
    for run, size in found.items():
        assert size == pytest.approx(links.sends(*run), rel=0.03)
    assert share["data"] == 1 and max(share["tensor"], share["pipeline"]) < 0.3


def test_many_pipelines_side_by_side_send_the_share_of_a_stage():
    assert links.passed("gpt2-medium", 10**6) == pytest.approx(1 / 8, rel=1e-3)
    assert links.passed("llama2-7b", 1) > 2.9  # 4M tokens are more than P/h


def test_plans_by_hand():
    free, naps = 1e15, 8 * links.NAP
    assert links.planned("data", free) == pytest.approx(3 * naps)
    assert links.planned("data, hidden", free) == pytest.approx(3 * naps)
    assert links.planned("pipeline", free) == pytest.approx(3 * links.NAP * 11)
    assert links.planned("pipeline", free, 16) == pytest.approx(3 * links.NAP / 2 * 19)
    slow = links.planned("data", 1e6) - 3 * naps
    assert slow == pytest.approx(links.sends("data", links.FEW) / 1e6)
    hidden = links.planned("data, hidden", 1e3) - links.planned("data", 1e3)
    assert hidden == pytest.approx(-2 * links.NAP * 7)  # all backwards but that of the last layer
    slow = links.planned("pipeline", 1e6) - links.planned("pipeline", free)
    message = 2 * 32 * 64 * links.NUMBER / 1e6
    assert slow == pytest.approx((2 * 8 + 3) * message)  # of an inner stage, and on the first way


def test_recorded_steps_are_no_shorter_than_their_plans():
    took = links.took()
    assert took.keys() == {(way, link) for way in links.KINDS for link in links.LINKS}
    assert all(seconds > 0.9 * links.planned(*run) for run, seconds in took.items())
    quick, *_, slow = ((took[run], links.planned(*run)) for run in took if "pipeline" in run)
    assert slow[0] - quick[0] > 0.8 * (slow[1] - quick[1]), "links hold what a pipeline sends"
    assert links.recorded()[1].startswith("recorded on 20")
