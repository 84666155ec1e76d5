"""PyTorch's own record of a computation: the graph of `grad_fn` nodes that a tensor was made by.

A node stands for one backward step.  Leaves that want a gradient end in AccumulateGrad.
"""

from collections import Counter

from torch import Tensor, nn

from mathlib.checks import InputError

Node = tuple[int, str]  # (number, name)


def walk(
    result: Tensor, names: nn.Module | None = None
) -> tuple[list[Node], list[tuple[int, int]]]:
    """Nodes and edges from the result down to the leaves, in the order of a breadth-first walk.

    An edge (a, b) says that b's backward runs on what a's backward hands down.  `names` labels the
    leaves.
    """
    label = {id(p): name for name, p in names.named_parameters()} if names else {}
    if result.grad_fn is None:
        raise InputError("result was made by no operation that is recorded: expected one that was")
    numbers, order = {result.grad_fn: 0}, [result.grad_fn]
    edges: list[tuple[int, int]] = []
    for node in order:  # grows while we walk
        for below, _ in node.next_functions:
            if below is None:  # an input that wants no gradient
                continue
            if below not in numbers:
                numbers[below] = len(order)
                order.append(below)
            edges.append((numbers[node], numbers[below]))
    return [(numbers[node], _title(node, label)) for node in order], edges


def _title(node: object, label: dict[int, str]) -> str:
    leaf = getattr(node, "variable", None)
    return (
        label.get(id(leaf), "leaf")
        if leaf is not None
        else type(node).__name__.removesuffix("Backward0")
    )


def kinds(result: Tensor) -> Counter[str]:
    """How many nodes of each kind stand behind a result."""
    nodes, _ = walk(result)
    return Counter(name for _, name in nodes)
