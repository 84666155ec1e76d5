"""Our engine with one fault at a time, to see whether a comparison finds it: for each operation a
wrong VJP, and three faults of the walk.

    with autograd_faults.built_in("relu: lets all through"):
        ...  # Value.relu has this fault here
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from mathlib.checks import one_of
from mathlib.compute import autodiff
from mathlib.compute.autodiff import Rows, Value

in_order = Value.graph


def not_transposed(self: Value, b: Value) -> Value:
    rows, made = autodiff.matmul(self.rows, b.rows)
    out = Value(rows, by="@", made=made)
    out.passes_to(self, lambda g: autodiff.matmul(g, b.rows))
    out.passes_to(b, lambda g: autodiff.matmul(autodiff.transposed(self.rows), g))
    return out


def own_factor(self: Value, b: Value) -> Value:
    rows, made = autodiff.hadamard(self.rows, b.rows)
    out = Value(rows, by="*", made=made)
    out.passes_to(self, lambda g: autodiff.hadamard(g, self.rows))
    out.passes_to(b, lambda g: autodiff.hadamard(g, b.rows))
    return out


def forgets_second(self: Value, b: Value) -> Value:
    out = Value(autodiff.each(lambda x, y: x + y, self.rows, b.rows), by="+")
    out.passes_to(self, lambda g: (g, 0))
    return out


def lets_all_through(self: Value) -> Value:
    out = Value(autodiff.each(lambda x: max(x, 0.0), self.rows), by="relu")
    out.passes_to(self, lambda g: (g, 0))
    return out


def by_its_input(self: Value) -> Value:
    out = Value(autodiff.each(math.exp, self.rows), by="exp")
    out.passes_to(self, lambda g: autodiff.hadamard(g, self.rows))
    return out


def as_a_mean(self: Value) -> Value:
    out = Value(sum(map(sum, self.rows)), by="sum")
    entries = len(self.rows) * len(self.rows[0])
    out.passes_to(self, lambda g: (autodiff.each(lambda _: g[0][0] / entries, self.rows), 0))
    return out


def loses_a_share(_: Rows | None, more: Rows) -> Rows:
    return more


def none_waits(self: Value) -> list[Value]:
    """A value is visited with its first share."""
    met: dict[Value, None] = {}
    todo = [self]
    while todo:
        value = todo.pop()
        if value not in met:
            met[value] = None
            todo += [parent for parent, _ in value.vjps]
    return list(met)[::-1]


def leaves_wait(self: Value) -> list[Value]:
    """Until all results are done."""
    return sorted(in_order(self), key=lambda value: value.number if value.vjps else 0)


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "A B: B is not transposed": (Value, "__matmul__", not_transposed),
    "A * B: takes its own factor": (Value, "__mul__", own_factor),
    "A + B: forgets B": (Value, "__add__", forgets_second),
    "relu: lets all through": (Value, "relu", lets_all_through),
    "exp: input for result": (Value, "exp", by_its_input),
    "sum: takes the VJP of a mean": (Value, "sum", as_a_mean),
    "walk: a share is lost": (autodiff, "added", loses_a_share),
    "walk: nobody waits": (Value, "graph", none_waits),
    "walk: leaves come last": (Value, "graph", leaves_wait),
}


def built_in(fault: str) -> AbstractContextManager[Any]:
    """Inside the block our engine has this one of `FAULTS`."""
    return mock.patch.object(*FAULTS[one_of("fault", fault, FAULTS)])
