"""A step of one process: gradients are derivatives of the loss; the update is SGD with momentum."""

import pytest

from mathlib.layout import Layout
from mathlib.prover.case import case
from mathlib.prover.modular import plus, times
from mathlib.prover.program import Program
from mathlib.prover.ranks import Ranks

LAYOUT = Layout(data=2, expert=2, micro_batches=2, micro_batch=2)


def stepped(of):
    """What one process notes, and its loss."""
    noted = Ranks({0: Program(of, 0).run()}).run()[0]
    rows = [x for (_, name, _), x in noted.items() if name == "loss"]
    return noted, sum(x for matrix in rows for row in matrix for x in row)


def by_name(of, noted, kind):
    """A kind of numbers as matrices."""
    found = {}
    for unit in {p.unit for p in of.network.parameters()}:
        numbers = iter(noted[kind, unit, 0][1])
        for p in of.network.parameters():
            if p.unit == unit:
                found[p.name] = [[next(numbers) for _ in range(p.columns)] for _ in range(p.rows)]
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_gradients_are_derivatives_of_the_loss(tied, twice):
    one, other = (case(LAYOUT, tied=tied).on_one() for _ in range(2))
    for drawn in (one, other):
        drawn.drawn.rates[2] = 0  # the loss that balances experts is not in `loss`
    noted, before = stepped(one)
    gradients = by_name(one, noted, "gradient")
    slope = 0
    for name, rows in other.drawn.weights.items():
        step = one.drawn.momenta[name]  # any direction
        other.drawn.weights[name] = plus(rows, times(step, twice))
        for row, along in zip(gradients[name], step, strict=True):
            slope += sum(g * s for g, s in zip(row, along, strict=True))
    after = stepped(other)[1]
    assert (after - before) % twice**2 == slope * twice % twice**2 != 0


def test_the_loss_that_balances_experts_pushes_scores_by_their_visits():
    one, other = (case(LAYOUT).on_one() for _ in range(2))
    other.drawn.rates[2] = 0
    first, second = (by_name(x, stepped(x)[0], "gradient") for x in (one, other))
    assert first["layers.1.router"] != second["layers.1.router"]
    assert first["layers.1.experts.0.down"] == second["layers.1.experts.0.down"]


def test_the_update_is_sgd_with_momentum():
    one = case(LAYOUT).on_one()
    noted, _ = stepped(one)
    gradients, momenta, weights = (
        by_name(one, noted, k) for k in ("gradient", "momenta", "weights")
    )
    rate, momentum, _ = one.drawn.rates
    for name, gradient in gradients.items():
        wanted = plus(times(one.drawn.momenta[name], momentum), gradient)
        assert momenta[name] == wanted
        assert weights[name] == plus(one.drawn.weights[name], times(wanted, -rate))
