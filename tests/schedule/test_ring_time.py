"""A ring by the clock: its law where messages are nothing, and from where on they hide."""

import pytest

from mathlib import specs
from mathlib.schedule import ring_order, ring_time

ORDERS = ring_order.ORDERS


def ends(lines):
    return [line[-1].begin + line[-1].seconds for line in lines]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_with_messages_that_take_no_time_it_ends_as_the_law_says(order, ranks):
    tokens = 64 * ranks
    lines = ring_time.timeline(order, ranks=ranks, tokens=tokens)
    work = sum(block.seconds for line in lines for block in line)
    law = ring_order.efficiency(order, ranks=ranks, tokens=tokens)
    assert work / ranks / max(ends(lines)) == pytest.approx(law)
    assert [block.source for block in lines[0]] == [-step % ranks for step in range(ranks)]
    for line in lines:
        for one, after in zip(line, line[1:], strict=False):
            assert one.begin + one.seconds <= after.begin + 1e-12


@pytest.mark.parametrize("order", ORDERS)
def test_messages_hide_until_they_take_as_long_as_a_block_and_then_set_the_pace(order):
    ranks, tokens, step = 4, 4000, {"plain": 1.0, "zigzag": 0.5}[order]
    first, *others = (
        max(ends(ring_time.timeline(order, ranks=ranks, tokens=tokens, message=way)))
        for way in (0.0, 0.49, 0.9 * step, 5.0)
    )
    assert others[0] == pytest.approx(first, rel=1e-3)
    assert others[2] == pytest.approx((ranks - 1) * 5 + step, rel=1e-3)


@pytest.mark.parametrize("order", ORDERS)
def test_from_the_formula_s_tokens_on_a_step_is_as_long_as_its_message(order):
    model, X, W = specs.find_model("llama3-8b"), 4e14, 5e10
    c = ring_time.hidden_tokens(model, order=order, achieved=X, bandwidth=W)
    work = 4 * c**2 * model.heads * model.head_dim * (1 if order == "plain" else 0.5)
    assert work / X == pytest.approx(2 * c * model.kv_heads * model.head_dim * 2 / W)
    assert ring_time.hidden_tokens(
        model, order=order, achieved=X, bandwidth=W, bytes_per_element=4
    ) == pytest.approx(2 * c)


def test_it_knows_the_first_step_s_half_block():
    """By hand, two ranks: rank 1 has half of a block and a whole one, rank 0 half of one."""
    zero, one = ring_time.timeline("plain", ranks=2, tokens=2000)
    assert [round(b.seconds, 2) for b in (*zero, *one)] == [0.5, 0, 0.5, 1]
    assert one[1].begin == pytest.approx(0.5, rel=1e-2)
