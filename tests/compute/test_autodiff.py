"""The engine against torch.autograd, entry by entry and visit by visit, and its count of
multiplications against numbers that count.
"""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.compute.autodiff import Value, matmul, multiplications, recomputed

ENTRIES = st.floats(-2, 2, allow_subnormal=False).map(lambda x: round(x, 3))
OPS = ("@", "+", "*", "relu", "exp")


@st.composite
def programs(draw, operations=OPS):
    """Leaves of random shapes, and steps (op, operands) whose operands fit: a random graph with
    much reuse.
    """
    shapes = [
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in range(draw(st.integers(1, 4)))
    ]
    leaves = [[[draw(ENTRIES) for _ in range(n)] for _ in range(m)] for m, n in shapes]
    needs = [draw(st.booleans()) for _ in leaves]
    steps = []
    for _ in range(draw(st.integers(1, 8))):
        i, op = draw(st.integers(0, len(shapes) - 1)), draw(st.sampled_from(operations))
        others = [
            j
            for j, (m, n) in enumerate(shapes)
            if (m == shapes[i][1] if op == "@" else (m, n) == shapes[i])
        ]
        if op in ("relu", "exp"):
            steps.append((op, i))
            shapes.append(shapes[i])
        elif others:
            j = draw(st.sampled_from(others))
            steps.append((op, i, j))
            shapes.append((shapes[i][0], shapes[j][1]))
    return leaves, needs, steps


def follow(values: list, steps: list) -> list:
    """The same program in either engine."""
    for op, *operands in steps:
        a, *rest = (values[i] for i in operands)
        values.append(
            a @ rest[0]
            if op == "@"
            else a + rest[0]
            if op == "+"
            else a * rest[0]
            if op == "*"
            else a.relu()
            if op == "relu"
            else (a * a * small(a)).exp()
        )
    return values


def small(a):
    """A constant of a's shape and engine: keeps exp from overflowing."""
    if isinstance(a, Value):
        return Value([[-0.5] * len(row) for row in a.rows], needs_grad=False)
    return torch.full_like(a, -0.5, requires_grad=False)


@settings(max_examples=300, deadline=None)
@given(programs())
def test_gradients_are_those_of_torch(program):
    leaves, needs, steps = program
    mine = follow(
        [Value(rows, needs_grad=need) for rows, need in zip(leaves, needs, strict=True)], steps
    )
    theirs = follow(
        [
            torch.tensor(rows, dtype=torch.float64, requires_grad=need)
            for rows, need in zip(leaves, needs, strict=True)
        ],
        steps,
    )
    torch.testing.assert_close(
        torch.tensor(mine[-1].rows, dtype=torch.float64), theirs[-1].detach()
    )
    assert mine[-1].needs_grad == theirs[-1].requires_grad
    if not mine[-1].needs_grad:
        return
    for _ in range(2):  # the second backward adds to what the first has left
        mine[-1].sum().backward()
        theirs[-1].sum().backward(retain_graph=True)
    for ours, leaf in zip(mine[: len(leaves)], theirs[: len(leaves)], strict=True):
        assert (ours.grad is None) == (leaf.grad is None)
        if leaf.grad is not None:
            torch.testing.assert_close(torch.tensor(ours.grad, dtype=torch.float64), leaf.grad)


def visits(value: Value) -> list[Value]:
    """What gets a gradient, in the order in which it is complete."""
    arrived = value.backward()
    return [one for one in reversed(value.graph()) if one in arrived]


def square_program(seed: int) -> tuple[list, list]:
    """Twelve operations on four matrices of one shape, so that each may meet each: long graphs."""
    draw = random.Random(seed)
    leaves = [[[draw.uniform(-1, 1) for _ in "ab"] for _ in "ab"] for _ in range(4)]
    steps = []
    for i in range(4, 16):
        op, pair = draw.choice(("@", "+", "*", "relu")), (draw.randrange(i), draw.randrange(i))
        steps.append((op, *pair[: 1 if op == "relu" else 2]))
    return leaves, [*steps, ("+", 15, 3)]


@pytest.mark.parametrize("seed", range(100))
def test_gradients_arrive_in_the_order_of_torch(seed):
    """Every value's, not only the leaves'; torch tells by a hook on each of its tensors."""
    leaves, steps = square_program(seed)
    needs = [False, True, True, True]
    mine = [Value(rows, needs_grad=need) for rows, need in zip(leaves, needs, strict=True)]
    theirs = [
        torch.tensor(rows, requires_grad=need) for rows, need in zip(leaves, needs, strict=True)
    ]
    mine, theirs = follow(mine, steps), follow(theirs, steps)
    place = {value: i for i, value in enumerate(mine)}
    told = []
    for i, tensor in enumerate(theirs):
        if tensor.requires_grad:
            tensor.register_hook(lambda _, i=i: told.append(i))
    theirs[-1].sum().backward()
    assert [place[value] for value in visits(mine[-1].sum())[1:]] == told


def test_a_leaf_is_done_when_its_last_share_is_there():
    """Not with all other leaves at the end, and not in the order in which leaves were made."""
    weights = [Value(2.0) for _ in range(4)]
    chain = Value(1.0, needs_grad=False)
    for weight in weights:
        chain = chain * weight
    leaves = [value for value in visits(chain) if not value.vjps]
    assert leaves == weights[::-1]
    order = visits(chain)
    assert order.index(weights[3]) == 1, "at once after the matmul that it belongs to"
    tied = (chain * weights[3]) * weights[0]
    assert visits(tied)[-1] is weights[0] and visits(tied)[-3] is weights[1]


class Number(float):
    """A number that notices when it is multiplied."""

    times = 0

    def __mul__(self, other):
        Number.times += 1
        return Number(float(self) * float(other))

    __rmul__ = __mul__

    def __add__(self, other):
        return Number(float(self) + float(other))

    __radd__ = __add__


def matrix(m: int, n: int) -> list[list[float]]:
    return [[Number(1 + i + j) for j in range(n)] for i in range(m)]


def counts(loss: Value) -> tuple[int, int]:
    return sum(value.made for value in loss.graph()), sum(value.made_back for value in loss.graph())


@pytest.mark.parametrize("input_needs_grad", [True, False])
def test_every_multiplication_is_counted(input_needs_grad):
    x, w, v = (
        Value(matrix(2, 3), needs_grad=input_needs_grad),
        Value(matrix(3, 4)),
        Value(matrix(2, 4)),
    )
    Number.times = 0
    loss = ((x @ w).relu() * v).sum()
    forward = Number.times
    loss.backward()
    assert counts(loss) == (forward, Number.times - forward)
    assert forward == 2 * 3 * 4 + 2 * 4


def test_backward_of_a_matmul_costs_twice_and_of_a_first_layer_once():
    m, k, n = 5, 7, 3
    both = (Value(matrix(m, k)) @ Value(matrix(k, n))).sum()
    both.backward()
    assert counts(both) == (m * k * n, 2 * m * k * n)
    first_layer = (Value(matrix(m, k), needs_grad=False) @ Value(matrix(k, n))).sum()
    first_layer.backward()
    assert counts(first_layer) == (m * k * n, m * k * n)


def test_a_graph_deeper_than_the_stack():
    x = value = Value(1.0)
    for _ in range(5000):
        value = value + x
    value.backward()
    assert x.grad == [[5001.0]] and len(value.graph()) == 5001


def test_a_value_used_twice_counts_once_in_the_graph():
    x = Value(3.0)
    square = x * x
    cube = square * x
    cube.backward()
    assert [value.by for value in cube.graph()] == ["", "*", "*"] and cube.graph()[0] is x
    assert x.grad == [[27.0]]


def test_shapes_that_do_not_fit_are_refused():
    a = Value([[1.0, 2.0]])
    with pytest.raises(InputError, match=r"\(1, 2\) @ \(1, 2\): expected \(m, k\) @ \(k, n\)"):
        a @ a
    with pytest.raises(InputError, match=r"shapes \[\(1, 1\), \(1, 2\)\]: expected the same"):
        a + Value(1.0)
    with pytest.raises(InputError, match="expected a loss, a single number"):
        a.backward()
    assert matmul([[1.0, 2.0]], [[3.0], [4.0]]) == ([[11.0]], 2)


RATIONAL = ("@", "+", "*")


@settings(max_examples=300, deadline=None)
@given(programs(RATIONAL))
def test_a_gradient_is_cheap(program):
    """Baur and Strassen 1983: at most three times the products of the function alone. The numbers
    themselves count, so that a VJP that multiplies too much goes red.
    """
    leaves, needs, steps = program
    leaves = [[[Number(x) for x in row] for row in rows] for rows in leaves]
    loss = follow([Value(r, needs_grad=n) for r, n in zip(leaves, needs, strict=True)], steps)[-1]
    loss = loss.sum()
    Number.times = 0
    loss.backward()
    made, made_back = counts(loss)
    assert (
        made_back == Number.times and multiplications(*loss.graph()) == made + made_back <= 3 * made
    )


def test_the_bound_is_reached_by_a_single_product():
    loss = Value(2.0) * Value(3.0)
    loss.backward()
    assert multiplications(*loss.graph()) == 3


def two_layers(x: Value, w: Value, v: Value, keep: bool) -> Value:
    def block(y: Value) -> Value:
        return (y @ w).relu() @ v

    y = block(x) if keep else recomputed(block, x)
    return (y * y).sum()


def test_what_is_recomputed_has_the_same_gradients_and_keeps_less():
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randn(s, generator=draw).tolist() for s in [(2, 3), (3, 4), (4, 2)]]
    kept, again = [Value(r) for r in rows], [Value(r) for r in rows]
    losses = two_layers(*kept, keep=True), two_layers(*again, keep=False)
    made = [sum(value.made for value in loss.graph()) for loss in losses]
    assert losses[0].rows == losses[1].rows and made[0] == made[1]
    assert len(losses[0].graph()) == 8 and len(losses[1].graph()) == 4
    for loss in losses:
        loss.backward()
    assert [one.grad for one in kept] == [one.grad for one in again]
    more = multiplications(*losses[1].graph()) - multiplications(*losses[0].graph())
    assert more == 2 * 3 * 4 + 2 * 4 * 2, "forward's matmuls, once more"


def test_what_is_recomputed_from_data_gets_no_gradient():
    x, w, v = Value([[1.0]], needs_grad=False), Value([[2.0]]), Value([[3.0]])
    loss = two_layers(x, w, v, keep=False)
    loss.backward()
    assert w.grad is None, "no VJP runs towards data: as PyTorch's reentrant checkpoint"


def test_backward_may_start_from_a_gradient_that_came():
    a, b = Value([[1.0, 2.0]]), Value([[3.0, 4.0]])
    (a * b).backward([[1.0, 10.0]])
    assert (a.grad, b.grad) == ([[3.0, 40.0]], [[1.0, 20.0]])
