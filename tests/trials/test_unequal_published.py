"""Published runs that fail, beside the formulas."""

import pytest

from mathlib.trials import unequal_published


def test_torchfts_first_run_is_near_the_law_and_its_second_is_not_its_own_product():
    first, second = unequal_published.goodputs()
    assert (first.printed, first.ours) == pytest.approx((0.8233, 0.8333), abs=5e-5)
    assert (second.printed, second.ours) == pytest.approx((0.134, 0.1903), abs=5e-5)


def test_a_hot_update_is_ten_times_faster_than_a_place_in_the_queue():
    rows = unequal_published.restarts()
    assert [row.gpus for row in rows] == [2048, 4096, 8192, 16384]
    assert all(9.8 < row.requeue / row.update < 11.9 for row in rows)
    for row in rows:
        assert row.goodput_requeue < row.goodput_update < 1
    few, many = rows[0], rows[-1]
    gain = [row.goodput_update - row.goodput_requeue for row in (few, many)]
    assert gain[1] > 8 * gain[0], "eight times the GPUs fail eight times as often"
    assert many.requeue / few.requeue == pytest.approx(1.69, abs=0.01)


def test_twice_the_gpus_train_less_only_if_a_repair_takes_longer_than_they_live():
    def work(gpus, hours):
        return gpus * unequal_published.left(gpus, hours * 3600)

    gains = [work(16_384, hours) / work(8_192, hours) for hours in (1, 4, 12)]
    assert gains == pytest.approx([1.66, 1.02, 0.28], abs=0.01)


def test_a_gpu_of_llama_3_lives_six_times_as_long_as_one_of_the_research_clusters():
    llama, research = unequal_published.lives()
    assert (llama.hours, research.hours) == pytest.approx((3.09, 7.9), abs=0.005)
    assert (llama.gpu_hours, research.gpu_hours) == pytest.approx((50_677, 8_090), abs=1)
