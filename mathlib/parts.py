"""A sum that keeps its parts: what every formula that adds things up returns.

total = sum of the parts, exactly.  A part may be a number or another Parts, so that "activations"
can be unfolded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from math import fsum
from typing import Union

from mathlib import units
from mathlib.checks import one_of

Part = Union[int, float, "Parts"]
renderer: Callable[["Parts"], str] | None = (
    None  # mathlib.show puts its picture here; without it a plain table shows
)


def exact_sum(amounts: Iterable[float]) -> float:
    """Their sum, rounded once: sum() of fractions rounds otherwise from Python 3.12 on, and the
    book's readers have one Python and its browser another.
    """
    amounts = list(amounts)
    return sum(amounts) if all(isinstance(a, int) for a in amounts) else fsum(amounts)


class Parts(Mapping[str, Part]):
    """Named parts of a sum in one unit; `parts["weights"]`, `parts.total`,
    `parts.share("weights")`.
    """

    def __init__(self, title: str, kind: str, parts: Mapping[str, Part], binary: bool = False):
        self.title, self.kind, self.binary = title, one_of("kind", kind, units.KINDS), binary
        self._parts = dict(parts)

    def __getitem__(self, name: str) -> Part:
        if name not in self._parts:
            raise KeyError(
                f"{name!r} is no part of {self.title!r}; it has {', '.join(self._parts)}"
            )
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def amount(self, name: str) -> float:
        """One part as a number, whether or not it has parts of its own."""
        part = self[name]
        if isinstance(part, (int, float)):  # most are, and asking for a Mapping takes long
            return part
        return part.total if isinstance(part, Parts) else part

    @cached_property
    def total(self) -> float:
        return exact_sum(self.amount(name) for name in self._parts)

    def share(self, name: str) -> float:
        return self.amount(name) / self.total

    def scaled(self, factor: float, title: str = "") -> "Parts":
        """The same parts, each times `factor`."""
        parts = {
            n: p.scaled(factor) if isinstance(p, Parts) else p * factor
            for n, p in self._parts.items()
        }
        return Parts(title or self.title, self.kind, parts, self.binary)

    def rows(self, depth: int = 0) -> Iterator[tuple[int, str, float]]:
        """(depth, name, amount) from the top down, the way a table prints it."""
        for name, part in self._parts.items():
            yield depth, name, self.amount(name)
            if isinstance(part, Parts):
                yield from part.rows(depth + 1)

    def as_dict(self) -> dict:
        """Plain numbers for JSON, the total included."""
        parts = {n: p.as_dict() if isinstance(p, Parts) else p for n, p in self._parts.items()}
        return {"title": self.title, "unit": self.kind, "total": self.total, "parts": parts}

    def _shown(self, amount: float) -> str:
        return units.show(amount, self.kind, self.binary)

    def __str__(self) -> str:
        total = self.total
        lines = [
            ("  " * depth + name, self._shown(amount), f"{amount / total:6.1%}" if total else "")
            for depth, name, amount in self.rows()
        ]
        lines.append(("total", self._shown(total), ""))
        wide, value = max(len(n) for n, _, _ in lines), max(len(v) for _, v, _ in lines)
        return "\n".join(
            [self.title] + [f"  {n:<{wide}}  {v:>{value}}  {s}".rstrip() for n, v, s in lines]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if renderer:
            return renderer(self)
        cells = "".join(
            f"<tr><td>{'&emsp;' * depth}{name}</td><td>{self._shown(amount)}</td></tr>"
            for depth, name, amount in self.rows()
        )
        total = self._shown(self.total)
        return (
            f"<table><caption>{self.title}</caption>{cells}<tr><th>total</th><th>{total}</th>"
            "</tr></table>"
        )
