"""Ranks that are slowed: the model of each way, who is named, and who is missed."""

import sys

import pytest

from mathlib.trials import unequal_runs as runs

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")


def test_who_waits_for_which_part_by_the_model():
    slower = {way: runs.slower(way) for way in runs.WAYS}
    assert slower["ring"]["one slow link inside"] == slower["ring"]["one slow port"] > 2
    assert slower["pipeline"]["one slow port"] < 1.05 < 1.5 < slower["pipeline"]["one slow rank"]
    assert slower["tree"]["one slow rank"] == pytest.approx(1.2), "its root asks one by one"
    for what in ("one slow link inside", "one slow port"):
        assert max(slower, key=lambda way: slower[way][what]) == "ring"
        assert slower["pipeline"][what] < min(slower["tree"][what], slower["hierarchical"][what])


def test_no_run_is_faster_than_the_model_allows():
    for way, one in runs.beside("one slow link inside", rounds=1, network="paced").items():
        assert one.run > 0.95 * one.model > 0, way


@LINUX
def test_the_slow_one_is_named_and_of_what():
    assert (0, 1) in runs.named(runs.CLUSTERS["one slow link inside"], rounds=1)
    assert (1, None) in runs.named(runs.CLUSTERS["one slow rank"], rounds=1)


def test_the_slow_one_in_words():
    assert runs.told([(1, None), (0, 1)]) == "rank 1's processor; rank 0's link to 1"
    assert runs.told([]) == "nobody"


def test_who_never_comes_is_missed():
    lines = runs.hung()
    assert lines[0].startswith("rank 0 waits in allreduce, number 2") and "rank 2" in lines[0]
    assert lines[-1] == "rank 2: waits for nobody"
    assert "2 failed to pass monitoredBarrier" in runs.missed()
