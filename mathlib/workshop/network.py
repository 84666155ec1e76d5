"""A network for the puzzles, in which every function is a polynomial, so that gradients are exact.

h width · f width inside a layer · L layers
A layer is y = x + ((x G^T) * (x U^T)) D^T; its weights G, U, D are one vector of 3 h f numbers.
Tokens are rows.  The loss of a token is the sum of (y - target)^2.
"""

from __future__ import annotations

from collections.abc import Sequence

from mathlib.checks import InputError
from mathlib.prover.tape import Node, Tape
from mathlib.records import dataclass
from mathlib.workshop.draw import drawn
from mathlib.workshop.tensor import Tensor, described, join, matrix, vector

Batch = tuple[Tensor, Tensor]  # inputs and targets, a row for each token


@dataclass(frozen=True)
class Network:
    """Sizes; see the module's legend."""

    layers: int = 2
    width: int = 2
    inner: int = 3

    @property
    def layer_numbers(self) -> int:
        """Of a layer's weights: 3 h f."""
        return 3 * self.width * self.inner

    def weights(self) -> list[Tensor]:
        """Before training, a vector for each layer."""
        return [drawn(f"weights of layer {i}", self.layer_numbers) for i in range(self.layers)]

    def batch(self, name: str, tokens: int) -> Batch:
        """Some data."""
        return drawn(f"inputs of {name}", tokens, self.width), drawn(
            f"targets of {name}", tokens, self.width
        )

    def forward(self, weights: Tensor, x: Tensor) -> Tensor:
        """Through one layer."""
        return matrix(self._passed(weights, x)[-1].rows)

    def backward(self, weights: Tensor, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
        """Back through it: the gradients of its input and of its weights."""
        tape, nodes, start, y = self._passed(weights, x)
        y.gradient = dy.rows
        for _ in tape.backward():
            pass  # nobody else is asked
        tape.weights()
        return matrix(start.came_back), vector(
            [n for w in nodes for row in w.came_back for n in row]
        )

    def gradient(self, weights: Sequence[Tensor], batch: Batch) -> list[Tensor]:
        """Of the mean loss of a batch's tokens, for each layer."""
        (x, target), inputs, found = batch, list[Tensor](), list[Tensor]()
        for w in weights:
            inputs.append(x)
            x = self.forward(w, x)
        dy = (x - target) * 2 / len(target)
        for w, x in zip(reversed(weights), reversed(inputs), strict=True):
            dy, dw = self.backward(w, x, dy)
            found.insert(0, dw)
        return found

    def whole_gradient(self, weights: Tensor, batch: Batch) -> Tensor:
        """The same where all weights are one vector."""
        whole = self._checked("weights", weights, self.layers * self.layer_numbers)
        return join(self.gradient(whole.shards(self.layers), batch))

    def _checked(self, what: str, given: Tensor, numbers: int) -> Tensor:
        if getattr(given, "shape", ()) != (numbers,):
            said = f"a {given}" if isinstance(given, Tensor) else described(given)
            raise InputError(f"{what}: {said}: expected a tensor of {numbers}")
        return given

    def _passed(self, weights: Tensor, x: Tensor) -> tuple[Tape, list[Node], Node, Node]:
        n = self._checked("weights", weights, self.layer_numbers).rows[0]
        h, f = self.width, self.inner
        shapes = ((f, h), (f, h), (h, f))
        nodes = [
            Node([n[i * h * f + r * c : i * h * f + (r + 1) * c] for r in range(rows)])
            for i, (rows, c) in enumerate(shapes)
        ]
        tape, start = Tape(), Node(x.rows)
        gate, up, down = nodes
        inner = tape.multiply(tape.linear(start, gate), tape.linear(start, up))
        return tape, nodes, start, tape.add(start, tape.linear(inner, down))
