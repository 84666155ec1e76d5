"""Bytes of optimizers that see a matrix as a whole: Muon, Shampoo.

A matrix, or a block of it, has m rows and n columns. Matrices of layers have states of their own;
embedding, head, norms and biases have Adam's two moments.
"""

from mathlib.checks import whole
from mathlib.compute import params
from mathlib.memory import activations, precision, states
from mathlib.memory.precision import Recipe
from mathlib.parts import Part, Parts
from mathlib.specs import Layout, Model, find_model


def shapes(model: str | Model) -> list[tuple[int, int, int]]:
    """Rows, columns and number of each kind of matrix inside the layers; fused ones count apart.

    Chapter: memory
    """
    body = params.matrices(find_model(model))[:-1]
    return [(one.outputs, one.inputs, one.layers * one.copies) for one in body]


def muon(model: str | Model, *, dtype: str = "fp32") -> Parts:
    """Bytes of Muon's states: a momentum for each number of a matrix inside the layers, and Adam's
    two moments for what is left (Jordan et al. 2024).

    Chapter: memory
    """
    model, wide = find_model(model), precision.bytes_of(dtype)
    matrices = sum(m * n * count for m, n, count in shapes(model))
    rest = params.total(model) - matrices
    parts: dict[str, Part] = {"momentum": wide * matrices, "moments of the rest": 2 * wide * rest}
    return Parts(f"Muon's states of {model.title}", "byte", parts)


def elsewhere(model: str | Model, layout: Layout, stage: int, recipe: str | Recipe) -> float:
    """Bytes on a device of a stage of the second moments that embedding, head, norms and biases
    have where the matrices of layers keep none, as with Muon; sharded from ZeRO stage 1 on.

    Chapter: memory
    """
    wide, model = precision.recipe(recipe).elsewhere, find_model(model)
    if not wide:
        return 0.0
    plain = model.but(qkv_bias=False, output_bias=False, mlp_bias=False)
    held = activations.layers_of(model, layout, stage)
    how = (layout.tensor, held, layout.expert, layout.expert_split)
    body = states.layer_parameters(plain, *how)
    inside = sum(size for name, size in body.items() if name != "sinks")
    rest = states.stage_parameters(model, layout, stage).total - inside
    return precision.bytes_of(wide) * rest / (layout.shard if layout.zero else 1)


def at_work(model: str | Model) -> float:
    """Bytes that Newton-Schulz needs for the largest matrix, whole whatever is sharded: the update
    in 32 bits, two 16-bit copies of it and two squares of the shorter side, 8 m n + 4 m^2, and one
    copy more where rows are more than columns, as `parallel.plain.muon` computes it.

    Chapter: memory
    """
    each = [
        (10 if m > n else 8) * m * n + 4 * min(m, n) ** 2 for m, n, _ in shapes(find_model(model))
    ]
    return float(max(each))


def shampoo(model: str | Model, *, block: int = 8192, dtype: str = "fp32") -> Parts:
    """Bytes of Shampoo's states: two factors and their roots for each block of a matrix, 2 (m^2 +
    n^2) numbers, and Adam's two moments for what is left (Gupta et al. 2018; blocks: Shi et al.
    2023, section 3.1).

    Chapter: memory
    """
    model, wide = find_model(model), precision.bytes_of(dtype)
    size, sides = whole("block", block), {"left": 0, "right": 0}
    for m, n, count in shapes(model):
        rows, columns = _cut(m, size), _cut(n, size)
        sides["left"] += count * len(columns) * sum(one**2 for one in rows)
        sides["right"] += count * len(rows) * sum(one**2 for one in columns)
    rest = params.total(model) - sum(m * n * count for m, n, count in shapes(model))
    parts: dict[str, Part] = {f"{side} factors": wide * each for side, each in sides.items()}
    parts |= {f"{side} roots": wide * each for side, each in sides.items()}
    parts["moments of the rest"] = 2 * wide * rest
    return Parts(f"Shampoo's states of {model.title}, blocks of {size}", "byte", parts)


def _cut(length: int, size: int) -> list[int]:
    return [min(size, length - start) for start in range(0, length, size)]
