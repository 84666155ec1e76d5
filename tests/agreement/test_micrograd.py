"""The engine beside micrograd 0.1.0 (the package is commit c911406 of its repository): the same
gradients, and where the two differ.
"""

import random

import pytest
import torch

from mathlib.compute.autodiff import Value


@pytest.fixture
def micrograd():
    return pytest.importorskip("micrograd.engine")


def scalars(seed, value):
    """Leaves, and what a random program of sums, products and relu makes of them."""
    draw = random.Random(seed)
    leaves = [value(draw.uniform(-1.5, 1.5)) for _ in range(4)]
    values = list(leaves)
    for _ in range(12):
        a, b = draw.choice(values), draw.choice(values)
        values.append(draw.choice([lambda a, b: a + b, lambda a, b: a * b])(a, b))
        if draw.random() < 0.3:
            values.append(values[-1].relu())
    return leaves, values[-1]


@pytest.mark.parametrize("seed", range(50))
def test_both_find_the_same_gradients(micrograd, seed):
    ours, loss = scalars(seed, Value)
    theirs, other = scalars(seed, micrograd.Value)
    loss.backward()
    other.backward()
    assert loss.rows[0][0] == pytest.approx(other.data, rel=1e-12)
    for mine, leaf in zip(ours, theirs, strict=True):
        assert (mine.grad or [[0]])[0][0] == pytest.approx(leaf.grad, rel=1e-12)


def after_two_passes(value):
    base = value(3.0)
    double = base * value(2.0)
    loss = double * double
    loss.backward()
    loss.backward()
    return base.grad


def test_a_second_backward_adds_the_gradient_again_and_in_micrograd_more(micrograd):
    """The values in the middle keep what the first pass has left in them."""
    assert after_two_passes(Value) == [[2 * 24.0]]
    assert after_two_passes(micrograd.Value) == 24 + 48


def test_data_get_a_gradient_there_and_every_value_keeps_one(micrograd):
    x, w = micrograd.Value(3.0), micrograd.Value(2.0)
    y = x * w
    (y * y).backward()
    assert (x.grad, y.grad) == (24.0, 12.0)
    x, w = Value(3.0, needs_grad=False), Value(2.0)
    y = x * w
    (y * y).backward()
    assert (x.grad, y.grad, w.grad) == (None, None, [[36.0]])


def chain_of_sums(value):
    base = value(3.0)
    total = value(0.0)
    for _ in range(5_000):
        total = total + base
    total.backward()
    return base.grad


def test_a_chain_of_5000_sums_exceeds_the_recursion_of_micrograd_only(micrograd):
    assert chain_of_sums(Value) == [[5_000.0]]
    assert chain_of_sums(lambda x: torch.tensor(x, requires_grad=True)) == 5_000
    with pytest.raises(RecursionError):
        chain_of_sums(micrograd.Value)


def test_a_product_of_matrices_is_one_value_here_and_40_there(micrograd):
    made = []

    def cell(row, column):
        first, *more = [a * b for a, b in zip(row, column, strict=True)]
        made.extend([first, *more])
        for product in more:
            first = first + product
            made.append(first)
        return first

    a = [[micrograd.Value(1.0) for _ in range(3)] for _ in range(2)]
    b = [[micrograd.Value(1.0) for _ in range(3)] for _ in range(4)]  # columns
    for row in a:
        for column in b:
            cell(row, column)
    assert [sum(v._op == op for v in made) for op in "*+"] == [24, 16]
    out = Value([[1.0] * 3] * 2) @ Value([[1.0] * 4] * 3)
    assert len(out.graph()) == 3, "two leaves and the product"
