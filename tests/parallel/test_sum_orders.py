"""Sums in one process against the collectives' own: the same bits, and the error that the formula
says.
"""

import pytest
import torch

from mathlib import launch
from mathlib.parallel import collectives as own
from mathlib.parallel import sum_orders
from mathlib.traffic import rounding

ORDERS = {
    "ring": (own.ring_all_reduce, sum_orders.ring),
    "tree": (own.tree_all_reduce, sum_orders.tree),
}
NAMES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def numbers(n: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(
        n, length, generator=torch.Generator().manual_seed(n), dtype=torch.float64
    ).to(dtype)


def run(lengths: list[int]) -> dict:
    rank, n = own.rank_and_size()
    results = {}
    for order, (all_reduce, _) in ORDERS.items():
        for name, dtype in NAMES.items():
            for length in lengths:
                mine = numbers(n, length, dtype)[rank].clone()
                all_reduce(mine)
                results[order, name, length] = mine
    return results


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_bits_are_those_of_the_real_run(n):
    lengths = [n - 1, 12 * n, 12 * n + 5]
    for results in launch.run(run, n, lengths):
        for (order, name, length), total in results.items():
            assert torch.equal(total, ORDERS[order][1](numbers(n, length, NAMES[name]))), (
                order,
                name,
                length,
            )


def test_the_two_orders_are_told_apart():
    x = numbers(8, 1000, torch.float32)
    assert not torch.equal(sum_orders.ring(x), sum_orders.tree(x))


def over_formula(order: str, n: int, dtype: str) -> float:
    """Measured error over the formula's, over spreads of a whole octave: where a number lies in it
    moves its error.
    """
    squares = 0.0
    for eighth in range(8):
        x = (numbers(n, 4000, torch.float64) * 2 ** (eighth / 8)).to(NAMES[dtype])
        squares += sum_orders.error(ORDERS[order][1](x), x) ** 2 / 8
    return squares**0.5 / rounding.error(order, ranks=n, dtype=dtype)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_error_is_what_the_formula_says(dtype):
    for n in (64, 200, 512):
        assert over_formula("ring", n, dtype) == pytest.approx(1, rel=0.03), n


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_tree_adds_numbers_of_like_size_and_each_addition_loses_8_percent_more(dtype):
    one_addition = over_formula("tree", 2, dtype)
    assert one_addition == pytest.approx(1.08, rel=0.02)
    for n in (16, 100, 512):
        assert over_formula("tree", n, dtype) == pytest.approx(one_addition, rel=0.03), n


def test_a_chain_in_bf16_stands_still_where_a_tree_goes_on():
    ones = torch.ones(1024, 8, dtype=torch.bfloat16)
    assert (
        sum_orders.ring(ones).tolist() == [256.0] * 8
        and sum_orders.tree(ones).tolist() == [1024.0] * 8
    )
