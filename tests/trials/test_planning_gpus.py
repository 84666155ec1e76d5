"""The fewest GPUs of a replica in ten sweeps, and for the five."""

import pytest

from mathlib.trials import planning_gpus as study
from mathlib.trials.planning_trust import every


def test_the_fewest_that_ran_were_the_quickest_and_one_alone_needs_more():
    found = study.fewest()
    assert all(one.lost == 0 for one in found)
    assert [one.alone // min(one.slower) for one in found] == [4, 4, 2, 4, 2, 4]
    assert all(one.slower[one.alone] > 0 for one in found)


def test_counting_all_replicas_is_quickest_in_four_of_six_and_never_far_off():
    found = [one.slower[one.counted] for one in study.fewest()]
    assert [f"{lost:.0%}" for lost in found] == ["7%", "12%", "0%", "0%", "0%", "0%"]


def test_every_size_stands_with_its_best_run():
    one = every()[0]
    sizes = study.slower(one)
    assert set(sizes) == {t.instance for t in one.timed} and min(sizes.values()) == 0
    assert all(value <= 1 for value in sizes.values())


def test_wide_sweeps_are_those_of_the_spreadsheets():
    """Seconds of the study's other spreadsheets with FlashAttention 2."""
    found = {one.title: (one.plain, one.again) for one in study.wide()}
    assert found == {
        "LLaMA 13B, 128 A100, 8,192 tokens": (0, pytest.approx(28.1473 / 21.9271 - 1, abs=1e-4)),
        "LLaMA 30B, 256 A100, 2,048 tokens": (
            pytest.approx(23.9952 / 22.6674 - 1, abs=1e-4),
            pytest.approx(35.07 / 24.7006 - 1, abs=1e-4),
        ),
        "LLaMA 30B, 128 A100, 8,192 tokens": (0, pytest.approx(62.9899 / 62.8381 - 1, abs=1e-4)),
        "LLaMA 65B, 128 A100, 2,048 tokens": (0, pytest.approx(118.6793 / 88.1599 - 1, abs=1e-4)),
    }


def test_copies_of_the_fewest_read_the_same_batch_and_take_longer():
    (_, n, few, _), (_, _, copied, slow), (_, _, anew, quick) = study.ways()
    assert n == few.world == 8 and copied.world == anew.world == 64
    assert few.sequences == copied.sequences == anew.sequences == 512
    assert slow > 1.08 * quick
