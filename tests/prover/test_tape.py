"""Gradients that come back over a tape are derivatives, to the last digit."""

from random import Random

from mathlib.prover.modular import plus, times
from mathlib.prover.tape import Node, Tape

SHAPES = {"x": (3, 4), "table": (4, 4), "bias": (1, 4), "scale": (1, 2), "w": (2, 4)}


def computed(values):
    """A number of every operation, and the nodes."""
    tape, nodes = Tape(), {name: Node(rows) for name, rows in values.items()}
    x = tape.add(nodes["x"], tape.look_up(nodes["table"], [3, None, 1]))
    x = tape.scale(tape.shift(x, nodes["bias"]), nodes["scale"])
    parts = [tape.pick(x, places) for places in ([2, 0], [], [1, 1])]
    x = tape.joined(parts, [3, 0, 2, 1])
    y = tape.linear(tape.multiply(x, x), nodes["w"])
    y.gradient = [[1] * len(row) for row in y.rows]
    return tape, nodes, sum(map(sum, y.rows))


def test_gradients_are_derivatives(twice):
    random = Random(2)
    draw = {
        name: [[random.randrange(twice) for _ in range(c)] for _ in range(r)]
        for name, (r, c) in SHAPES.items()
    }
    step = {name: [[random.randrange(twice) for _ in row] for row in x] for name, x in draw.items()}
    tape, nodes, before = computed(draw)
    assert not list(tape.backward())
    tape.weights()
    slope = sum(
        g * s
        for name, node in nodes.items()
        for row, other in zip(node.came_back, step[name], strict=True)
        for g, s in zip(row, other, strict=True)
    )
    moved = {name: plus(x, times(step[name], twice)) for name, x in draw.items()}
    after = computed(moved)[2]
    assert (after - before) % twice**2 == slope * twice % twice**2 != 0


def test_weights_gradients_wait_until_they_are_asked_for():
    tape, w = Tape(), Node([[2]])
    tape.linear(Node([[3]]), w).gradient = [[1]]
    assert not list(tape.backward()) and w.came_back == [[0]]
    tape.weights()
    assert w.came_back == [[3]] and not tape.later
