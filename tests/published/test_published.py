"""Numbers that papers and model cards print, each as an expression over the library's public
functions.

A row says how the library gets from the source's inputs to its number, and how far rounding in the
source reaches.
"""

import ast
import csv
import importlib
import math
import pkgutil
from functools import cache
from pathlib import Path

import pytest

import mathlib

HERE = Path(__file__).parent
COLUMNS = ["id", "expression", "expected", "tolerance", "source"]
TABLES = sorted(HERE.glob("*.csv"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


ALL = [row for path in TABLES for row in rows(path)]


@cache
def modules() -> dict[str, object]:
    """The formula modules by name: params, flops, cost, ..."""
    found = pkgutil.walk_packages(mathlib.__path__, "mathlib.")
    rooms = ("compute", "memory", "traffic", "plan")
    names = [m.name for m in found if m.name.split(".")[1] in rooms and not m.ispkg]
    formulas = {name.split(".")[-1]: importlib.import_module(name) for name in names}
    return formulas | {
        name: importlib.import_module(f"mathlib.{name}") for name in ("specs", "units")
    }


def close(measured: object, expected: object, tolerance: float) -> bool:
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(measured, (list, tuple))
            and len(measured) == len(expected)
            and all(close(m, e, tolerance) for m, e in zip(measured, expected, strict=True))
        )
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        if not isinstance(measured, (int, float)) or isinstance(measured, bool):
            return False
        return (
            math.isclose(measured, expected, rel_tol=tolerance, abs_tol=0)
            if tolerance
            else measured == expected
        )
    return type(measured) is type(expected) and measured == expected


def test_published() -> None:
    for row in ALL:
        measured = eval(
            row["expression"],
            {
                "__builtins__": {
                    "sum": sum,
                    "max": max,
                    "min": min,
                    "len": len,
                    "range": range,
                    "list": list,
                    "sorted": sorted,
                    "round": round,
                }
            },
            modules(),
        )
        expected = ast.literal_eval(row["expected"])
        assert close(measured, expected, float(row["tolerance"])), (
            f"{row['id']}: {row['source']} prints {expected!r}, "
            f"{row['expression']} gives {measured!r}"
        )


@pytest.mark.parametrize("path", TABLES, ids=[path.stem for path in TABLES])
def test_a_table_is_filled_in(path: Path) -> None:
    found = rows(path)
    assert found, f"{path.name} has no row"
    assert list(found[0]) == COLUMNS
    for row in found:
        assert all((row[column] or "").strip() for column in COLUMNS), (
            f"{path.name}: a gap in {row}"
        )
        assert 0 <= float(row["tolerance"]) <= 0.1, f"{row['id']}: tolerance {row['tolerance']}"


def test_every_id_is_used_once() -> None:
    ids = [row["id"] for row in ALL]
    assert ALL and len(ids) == len(set(ids)), sorted({i for i in ids if ids.count(i) > 1})


def calls(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_a_row_asks_the_library() -> None:
    for row in ALL:
        tree = ast.parse(row["expression"], mode="eval")
        asked = {name for name in calls(tree) if name.split(".")[0] in modules()}
        assert asked, f"{row['id']}: no function of the library in {row['expression']}"
        expected = ast.literal_eval(row["expected"])
        typed = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and type(node.value) is float
        }
        assert not (isinstance(expected, float) and expected in typed), (
            f"{row['id']}: the answer stands in the expression"
        )
