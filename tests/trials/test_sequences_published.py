"""Published figures beside formulas, two sizes worked through, and a ring as others print it."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mathlib.parallel.plain import ring_attention
from mathlib.schedule import ring_order
from mathlib.traffic import volumes
from mathlib.trials import sequences_published as published


def test_a_plain_ring_was_measured_as_its_law_says_and_zigzag_far_above():
    law = ring_order.efficiency("plain", ranks=8)
    plain, zigzag = (published.readme(order) for order in ring_order.ORDERS)
    assert len(plain) == 8 and all(0.92 * law < share < 1.011 * law for share in plain.values())
    for (*_, documents), share in zigzag.items():
        low, high = (0.81, 0.91) if documents == published.BATCH else (0.70, 0.81)
        assert low < share < high
    printed = {"zigzag": 0.902, "plain": 0.539, "stripe": 0.829}  # as the page rounds them
    for order, share in printed.items():
        found = published.readme(order)["8 H800", "both", published.BATCH]
        assert found == pytest.approx(share, abs=1e-3)


def test_allocated_bytes_of_ulysses_are_within_four_percent_and_six_for_405b():
    rows = published.simumax()
    assert len(rows) == 7
    assert all(1.02 < gib / needed < 1.03 for *_, needed, gib in rows[:4])
    assert all(gib / needed == pytest.approx(1.0586, abs=5e-4) for *_, needed, gib in rows[4:])
    assert rows[2][2] == pytest.approx(rows[3][2], rel=0.002)  # TP 2, CP 4 is as fast as CP 8


def test_flop_of_longer_sequences_fall_faster_than_eight_bit_matmuls_explain():
    rows = published.torchtitan()
    assert rows[0][2:] == (1, 1)
    assert rows[1][2] == pytest.approx(rows[1][3], abs=0.01)
    assert all(rate < 0.75 * free for _, _, rate, free in rows[2:])


def test_as_many_tokens_a_rank_keep_as_much_whatever_the_ranks():
    eight, many = published.worked(131_072, 8), published.worked(1_048_576, 64)
    assert eight.inputs == many.inputs and eight.loss == many.loss and eight.layer == many.layer
    assert many.seconds / eight.seconds == pytest.approx(5.9, abs=0.05)
    assert eight.margin > many.margin > 4
    assert eight.exchanged == many.exchanged == pytest.approx(28.2e9, rel=1e-3)
    assert eight.exchanged < eight.sent < many.sent
    assert (eight.again, many.again) == (
        pytest.approx(8.85, abs=0.01),
        pytest.approx(53.7, abs=0.1),
    )
    one = published.worked(131_072, 1)
    assert one.loss / (one.inputs + one.layer) == pytest.approx(3.58, abs=0.005)
    assert eight.states + one.inputs + one.layer == pytest.approx(72.5e9, abs=0.1e9)
    assert published.worked(8192, 1).sent == 0


def test_a_printed_ring_is_nan_in_9_of_12_rows_and_its_first_rank_sees_the_future():
    assert published.printed_rows() == {"NaN": 9, "other numbers": 0, "right": 3}
    skipping = published.printed_rows(skipping=True)  # what the first rank's block would have been
    assert skipping == {"NaN": 0, "other numbers": 2, "right": 10}
    assert published.printed_rows(own_masked=True, skipping=True)["right"] == 12


def test_a_step_is_twice_the_work_that_is_printed():
    """Two matmuls of c x c scores with the width H: 4 c^2 H, not 2 c^2 H."""
    c, H = 6, 10
    q, k, v = torch.randn(3, 1, 2, c, H // 2)
    with FlopCounterMode(display=False) as counted:
        ring_attention.scores(q, k, False) @ v
    assert counted.get_total_flops() == 4 * c * c * H


def test_gradients_in_16_bits_that_do_not_go_home_are_30_percent_short_on_8_ranks():
    ring_sends = volumes.context_parallel("llama3-8b", context=8, gradient_bytes=4)
    printed_bytes = 3 * ring_sends.amount("forward")  # K, V forward; K, V, dK, dV backward
    assert printed_bytes / ring_sends.total == pytest.approx(0.7)
