"""What an optimizer multiplies when it updates whole matrices, once a step whatever the batch.

A matrix has m rows and n columns; h width.
"""

from collections.abc import Collection

from mathlib.checks import positive, whole
from mathlib.compute import params
from mathlib.compute.flops import matmul
from mathlib.parts import Parts
from mathlib.specs import Model, find_model


def newton_schulz(*, rows: int, columns: int, steps: int = 5) -> int:
    """FLOP to bring the singular values of a matrix near 1: 4 m^2 n + 2 m^3 a step, m the shorter
    side: X X^T, its square, and a matmul with X (Jordan et al. 2024).

    Chapter: memory
    """
    short, long = sorted((whole("rows", rows), whole("columns", columns)))
    gram = matmul(rows=short, inner=long, columns=short)
    square = matmul(rows=short, inner=short, columns=short)
    return whole("steps", steps) * (2 * gram + square)


def shampoo(*, rows: int, columns: int) -> int:
    """FLOP of a step of Shampoo without its roots: both factors' sums and both sides of the update,
    4 m n (m + n) (Gupta et al. 2018, algorithm 1).

    Chapter: memory
    """
    high, wide = whole("rows", rows), whole("columns", columns)
    return 4 * high * wide * (high + wide)


def adapted_norms(
    model: str | Model, *, rank: int, targets: Collection[str] = ("query", "value")
) -> int:
    """FLOP of the matmuls B A that DoRA's norms need in a forward pass: 2 r times the numbers of
    all adapted matrices, whatever the batch (Liu et al. 2024, equation 5).

    Chapter: memory
    """
    model = find_model(model)
    params.lora(model, rank=rank, targets=targets)  # refuses other names
    found = [one for one in params.matrices(model)[:-1] if one.name in targets]
    return sum(
        one.layers * one.copies * matmul(rows=one.outputs, inner=rank, columns=one.inputs)
        for one in found
    )


def muon(model: str | Model, *, steps: int = 5) -> Parts:
    """FLOP of a step of Muon, by kind of matrix: `newton_schulz` of each matrix inside the layers.

    Chapter: memory
    """
    model, parts = find_model(model), dict[str, float]()
    for one in params.matrices(model)[:-1]:
        each = newton_schulz(rows=one.outputs, columns=one.inputs, steps=steps)
        parts[one.name] = parts.get(one.name, 0) + each * one.layers * one.copies
    return Parts(f"Newton-Schulz of {model.title}", "FLOP", parts)


def share(*, width: int, batch_tokens: float, steps: int = 5) -> float:
    """FLOP of Muon to those of a training step, for square matrices: 6 h^3 steps to 6 h^2 tokens,
    steps h / tokens (Jordan et al. 2024).

    Chapter: memory
    """
    return whole("steps", steps) * whole("width", width) / positive("batch_tokens", batch_tokens)
