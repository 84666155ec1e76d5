"""Prediction beside measurement: the table every chapter ends a run with, and the error when the
two disagree.

ratio = measured / predicted.  tolerance: greatest accepted |measured - predicted| / |predicted|; 0
demands equality.
"""

import math
from html import escape
from typing import Any

from mathlib.checks import InputError, non_negative
from mathlib.show import says
from mathlib.show.tables import html_table


class Disagreement(AssertionError):
    """A measurement left the tolerance around its prediction."""


FEW = 3  # rows of equal numbers that stand open


def _shown(value: float, unit: str, exact: bool) -> str:
    """Every digit where the two must be equal, three of them otherwise."""
    if exact and value == int(value) and abs(value) < 2**63:
        return f"{int(value):,} {unit}".rstrip()
    return says.amount(value, unit)


def _ratio(predicted: float, measured: float) -> float:
    if predicted == measured:
        return 1.0
    return measured / predicted if predicted else math.inf


class Comparison:
    """Rows of (name, predicted, measured, ratio) within one tolerance."""

    def __init__(
        self,
        rows: list[tuple[str, float, float, float]],
        tolerance: float,
        unit: str,
        columns: tuple[str, str],
    ):
        self.rows, self.tolerance, self.unit, self.columns = rows, tolerance, unit, columns

    @property
    def worst(self) -> float:
        """The greatest |ratio - 1| of all rows."""
        return max(abs(ratio - 1) for *_, ratio in self.rows)

    @property
    def beyond(self) -> list[str]:
        """Names of the rows that left the tolerance."""
        return [name for name, p, m, _ in self.rows if abs(m - p) > self.tolerance * abs(p)]

    @property
    def bound(self) -> str:
        return "equal" if self.tolerance == 0 else f"within {says.percent(self.tolerance)}"

    @property
    def finding(self) -> str:
        """What the table shows, in a sentence."""
        one, other = self.columns
        pair = f"{one[:1].upper()}{one[1:]} and {other}"
        if self.tolerance == 0:
            last = f", to the last {says.one(self.unit)}" if self.unit else ""
            rows = {1: "", 2: " in both rows"}.get(len(self.rows), f" in all {len(self.rows)} rows")
            return f"{pair} are equal{rows}{last}."
        apart = f"at most {says.percent(self.worst)}" if self.worst >= 1e-4 else "less than 0.01%"
        return f"{pair} are {apart} apart (accepted: {says.percent(self.tolerance)})."

    @property
    def heads(self) -> tuple[str, str]:
        """The two columns' names, with the unit where the numbers go without."""
        more = f", {self.unit}" if self.tolerance == 0 and self.unit else ""
        return self.columns[0] + more, self.columns[1] + more

    def cells(self) -> list[tuple[str, str, str, str]]:
        """The table's text, row by row; where numbers are exact their unit stands in the head."""
        exact = self.tolerance == 0
        unit = "" if exact else self.unit
        return [
            (name, _shown(p, unit, exact), _shown(m, unit, exact), "1" if exact else says.ratio(r))
            for name, p, m, r in self.rows
        ]

    @property
    def lines(self) -> list[list[str]]:
        """Head and rows; where all ratios are 1 they need no column."""
        keep = 3 if self.tolerance == 0 else 4
        table = [("quantity", *self.heads, "ratio"), *self.cells()]
        return [list(row[:keep]) for row in table]

    def __str__(self) -> str:
        lines = self.lines
        wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = [
            "  ".join(
                cell.rjust(w) if i else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, wide, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*rows, self.finding])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        many = self.tolerance == 0 and len(self.rows) > FEW
        table = html_table(self.lines, "" if many else self.finding, "mlx-compare")
        label = escape(self.finding)
        scrolls = f'<div class="mlx-scroll" tabindex="0" role="group" aria-label="{label}">'
        inside = f"{scrolls}{table}</div>"
        if not many:
            return inside
        said = says.html(self.finding)
        return f'<details class="mlx-compared"><summary>{said}</summary>{inside}</details>'


def _row(name: str, pair: Any) -> tuple[str, float, float, float]:
    """A row of the table, from a pair of finite numbers (a tensor of one counts as a number)."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(f"{name} = {pair!r}: expected (predicted, measured)")
    predicted, measured = (x.item() if hasattr(x, "item") else x for x in pair)
    for word, value in (("predicted", predicted), ("measured", measured)):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise InputError(f"{name}: {word} = {value!r}: expected a finite number")
    return name, predicted, measured, _ratio(predicted, measured)


def compare(
    pairs: dict[str, tuple[float, float]] | None = None,
    /,
    *,
    tolerance: float,
    unit: str = "",
    columns: tuple[str, str] = ("predicted", "measured"),
    **named: tuple[float, float],
) -> Comparison:
    """The table "predicted | measured | ratio"; raises Disagreement where the two differ by more
    than that.

    `compare(forward_flop=(predicted, counted), tolerance=0, unit="FLOP")`; a dict takes names that
    are no identifiers.
    `columns` renames the two where nothing was run: ("formula", "printed").
    """
    non_negative("tolerance", tolerance)
    given: dict[str, Any] = {
        **(pairs or {}),
        **{name.replace("_", " "): pair for name, pair in named.items()},
    }
    if not given:
        raise InputError("pairs = {}: expected at least one name=(predicted, measured)")
    rows = [_row(name, pair) for name, pair in given.items()]
    table = Comparison(rows, tolerance, unit, columns)
    if table.beyond:
        raise Disagreement(
            f"{', '.join(table.beyond)}: prediction and measurement disagree\n{table}"
        )
    return table
