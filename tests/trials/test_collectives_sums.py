"""Rounding of sums over ranks: the orders, and that 16 bits and agreement are what hurts."""

import pytest

from mathlib.trials import collectives_sums as rounded


def test_a_ring_of_ones_stands_still_where_bf16_counts_in_twos():
    assert (rounded.ones(256), rounded.ones(257), rounded.ones(1024)) == (256, 256, 256)


def test_errors_are_those_of_the_formula_and_smaller_in_a_tree_or_in_one_place():
    found = rounded.errors(64)
    assert all(formula == pytest.approx(one, rel=0.12) for formula, one in found.values())
    assert rounded.once_error(64) < found["bf16", "tree"][1] < found["bf16", "ring"][1]
    formula, levels = rounded.levels_error()
    assert levels == pytest.approx(formula, rel=0.1)


def test_numbers_that_agree_lose_half_in_a_ring():
    left = rounded.agreeing()
    assert left["ring"] == pytest.approx(0.5, abs=0.05) and left["tree"] > 0.99
    assert rounded.agreeing(64)["ring"] > 0.99, "few ranks lose nothing"


def test_the_simulated_orders_have_the_bits_of_real_ranks(monkeypatch):
    assert rounded.same_bits("bf16") == (True, True, True)
    monkeypatch.setattr(rounded.sum_orders, "tree", rounded.sum_orders.ring)
    assert rounded.same_bits("bf16")[1] is False


def test_rounding_is_told_in_units_of_the_noise():
    x = rounded.draw(256, 512)
    noise, agreeing = rounded.against_noise(x), rounded.against_noise(x + 3)
    assert noise["ring"] < 0.1 < 1 < agreeing["ring"] and agreeing["tree"] < 0.5
