"""Faults of our engine: each is there inside its block only, and does what its name says."""

import pytest

from mathlib.checks import InputError
from mathlib.compute import autodiff
from mathlib.compute.autodiff import Value
from mathlib.trials import autograd_faults as faults


def gradients():
    """Of a, b and c in ((a b) * c + c).relu().exp().sum(), by the engine as it is."""
    a, b = Value([[1.0, -2.0]]), Value([[3.0], [0.5]])
    c = Value([[-0.25]])
    loss = ((a @ b) * c + c).relu().exp().sum() + (c * c).relu().sum()
    loss.backward()
    return [leaf.grad for leaf in (a, b, c)], [value.by for value in loss.graph()]


RIGHT = gradients()


@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_fault_ends_with_its_block(fault):
    where, name, instead = faults.FAULTS[fault]
    before = getattr(where, name)
    with faults.built_in(fault):
        assert getattr(where, name) is instead
    assert getattr(where, name) is before and gradients() == RIGHT


def result_and_pull(fault, *rows):
    """Of a faulty operation: its result, and what it hands to each parent for ones."""
    parents = [Value(one) for one in rows]
    with faults.built_in(fault):
        out = faults.FAULTS[fault][2](*parents)
    ones = autodiff.one(out.rows) if out.by == "sum" else autodiff.each(lambda _: 1.0, out.rows)
    return out.rows, [vjp(ones)[0] for _, vjp in out.vjps]


@pytest.mark.parametrize(
    ("fault", "rows", "result", "shares"),
    [
        ("A B: B is not transposed", ([[2.0]], [[3.0]]), [[6.0]], [[[3.0]], [[2.0]]]),
        ("A * B: takes its own factor", ([[2.0]], [[3.0]]), [[6.0]], [[[2.0]], [[3.0]]]),
        ("A + B: forgets B", ([[2.0]], [[3.0]]), [[5.0]], [[[1.0]]]),
        ("relu: lets all through", ([[-2.0]],), [[0.0]], [[[1.0]]]),
        ("exp: input for result", ([[0.0]],), [[1.0]], [[[0.0]]]),
        ("sum: takes the VJP of a mean", ([[2.0, 3.0]],), [[5.0]], [[[0.5, 0.5]]]),
    ],
)
def test_the_result_is_right_and_the_share_is_not(fault, rows, result, shares):
    assert result_and_pull(fault, *rows) == (result, shares)


def test_a_product_that_does_not_transpose_is_stopped_by_shapes():
    with faults.built_in("A B: B is not transposed"), pytest.raises(InputError):
        gradients()


def test_faults_of_the_walk():
    right, _ = RIGHT
    with faults.built_in("walk: a share is lost"):
        assert gradients()[0] != right
    with faults.built_in("walk: leaves come last"):
        found, order = gradients()
        assert found == right and order[:3] == ["", "", ""]
    x = Value(3.0)
    y = x * x
    with faults.built_in("walk: nobody waits"):
        loss = (y * y) * y  # y is met before y * y
        loss.backward()
    assert x.grad != [[6 * 3.0**5]]


def test_an_unknown_fault_is_refused():
    with pytest.raises(InputError, match="fault = 'exp'"):
        faults.built_in("exp")
