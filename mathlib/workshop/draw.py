"""Numbers drawn at random by their name: the same for every rank, process and browser."""

from random import Random

from mathlib.prover.modular import PRIME
from mathlib.workshop.tensor import Tensor, matrix, vector


def drawn(name: str, *shape: int) -> Tensor:
    """A tensor, no number of it 0."""
    random = Random(name)
    if len(shape) == 1:
        return vector([random.randrange(1, PRIME) for _ in range(shape[0])])
    return matrix([[random.randrange(1, PRIME) for _ in range(shape[1])] for _ in range(shape[0])])
