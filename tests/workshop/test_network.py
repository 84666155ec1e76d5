"""The network's gradients are exact: a polynomial's own difference quotient says so."""

import pytest

from mathlib.checks import InputError
from mathlib.prover.modular import PRIME
from mathlib.workshop.draw import drawn
from mathlib.workshop.network import Network
from mathlib.workshop.tensor import Tensor, join, vector

MODEL = Network()
DEGREE = 24  # of the loss in any one direction, at most: (3 * 3 + ...) of two layers, squared


def loss(weights, batch):
    """The mean over tokens of the sum of (y - target)^2."""
    x, target = batch
    for w in weights.shards(MODEL.layers):
        x = MODEL.forward(w, x)
    away = x - target
    return sum((away * away).sum().rows[0]) * pow(len(target), -1, PRIME) % PRIME


def slope(values):
    """The derivative at 0 of the polynomial that has these values at 0, 1, 2, ..."""
    n, found = len(values), 0
    for i, value in enumerate(values):
        term, under = 0, 1
        for j in range(n):
            if j != i:
                under = under * (i - j) % PRIME
        for skip in range(n):
            if skip != i:
                part = 1
                for j in range(n):
                    if j not in (i, skip):
                        part = part * -j % PRIME
                term += part
        found += value * term * pow(under, -1, PRIME)
    return found % PRIME


def test_the_gradient_is_the_slope_of_the_loss():
    weights, batch = join(MODEL.weights()), MODEL.batch("some", 3)
    way = drawn("direction", len(weights))
    values = [loss(weights + way * t, batch) for t in range(DEGREE + 1)]
    gradient = MODEL.whole_gradient(weights, batch)
    assert (gradient * way).rows[0] != [0] * len(way)
    assert slope(values) == sum((gradient * way).rows[0]) % PRIME


def test_layers_hand_gradients_back():
    model = Network(layers=3)
    weights, (x, target) = model.weights(), model.batch("some", 2)
    inputs = [x]
    for w in weights:
        inputs.append(model.forward(w, inputs[-1]))
    dy, found = (inputs.pop() - target) * 2 / 2, []
    for w in reversed(weights):
        dy, gradient = model.backward(w, inputs.pop(), dy)
        found.insert(0, gradient)
    assert found == model.gradient(weights, (x, target))
    assert isinstance(dy, Tensor) and dy.shape == x.shape


@pytest.mark.parametrize("given", [vector([1] * 18), None])
def test_weights_of_another_size_are_refused(given):
    with pytest.raises(InputError, match="weights: (a tensor of 18|NoneType None): expected a"):
        MODEL.whole_gradient(given, MODEL.batch("some", 1))


def test_weights_that_nobody_waited_for_are_named():
    async def gathered():
        return None

    waiting = gathered()
    with pytest.raises(InputError, match="weights: gathered without await: expected a tensor of"):
        MODEL.forward(waiting, MODEL.batch("some", 1)[0])
    waiting.close()


def test_a_batch_of_two_is_the_mean_of_both():
    weights = join(MODEL.weights())
    one, other = MODEL.batch("one", 2), MODEL.batch("other", 2)
    both = tuple(map(join, zip(one, other, strict=True)))
    mean = (MODEL.whole_gradient(weights, one) + MODEL.whole_gradient(weights, other)) / 2
    assert MODEL.whole_gradient(weights, both) == mean != vector([0] * len(weights))
