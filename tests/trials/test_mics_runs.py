"""The library's MiCS: knobs do their work, shards start and resume as the whole would."""

import pytest
import torch

from mathlib.model import oracle
from mathlib.trials import mics_runs


def test_knobs_change_what_they_are_for():
    limit = {"prefetch": 3, "most_live": mics_runs.room_for(2)}
    settings = ({}, {"bucket_elements": 1e9}, {"whole_below": 1000}, {"prefetch": 3}, limit)
    usual, bucket, small, ahead, limited = mics_runs.turned(*settings)
    assert (usual.scatters, bucket.scatters) == (5, 1) and usual.gathered == bucket.gathered
    assert small.gathered < usual.gathered and small.kept > usual.kept
    assert usual.summed == 0 < small.summed
    assert (usual.live, ahead.live, limited.live) == (2, 4, 2)


def test_made_in_shards_a_rank_never_holds_the_whole():
    births = mics_runs.births()
    whole, layer, matrix = mics_runs.birth_sizes()
    (cut, one), (shards, other) = births.values()
    assert torch.equal(one, other)
    assert max(cut) >= 2 * whole and max(shards) <= shards[-1] + layer + 2 * matrix
    assert cut[-1] == shards[-1] == pytest.approx(whole / 4, rel=0.01)


def test_recomputed_and_offloaded_are_the_same_training():
    found = mics_runs.thrift()
    assert all(one.far < oracle.EQUAL and one.gathers == 9 for one in found.values())
    for recompute in ("none", "full"):
        kept, moved = found[recompute, False], found[recompute, True]
        assert (kept.on_host, moved.on_device) == (0, 0) and kept.on_device == moved.on_host
    assert found["full", False].on_device < 0.2 * found["none", False].on_device


def test_others_resume_and_the_same_groups_do_so_bit_for_bit(monkeypatch):
    found = mics_runs.resumed([(4, 2), (3, 3)])
    assert found[4, 2][1] == 0 < found[3, 3][1] < 1e-13
    monkeypatch.setattr(mics_runs.checkpoint, "latest", lambda folder: None)
    assert mics_runs.resumed([(3, 3)])[3, 3][1] < oracle.EQUAL, "from the start it is the same run"
