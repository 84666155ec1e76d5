"""A stranger finds formula, run, test and place from a word; every row is true."""

import importlib
from dataclasses import asdict
from functools import cache
from pathlib import Path

import map as map_tool
import pytest
import whereabouts
from formulas import STEPS

from mathlib.checks import InputError
from mathlib.cli import where
from mathlib.cli.parser import main
from mathlib.show.experiments import registry
from mathlib.show.ledger import claims

ROOT = Path(__file__).resolve().parents[2]
WORDS = {row["chapter"] for row in claims().values()} | set(whereabouts.notebooks())
ROWS = cache(whereabouts.rows)


def test_the_page_and_the_list_are_made_from_the_code():
    again = "run `python tools/map.py`"
    assert map_tool.PAGE.read_text("utf-8") == map_tool.page(), again
    assert map_tool.LIST.read_text("utf-8") == map_tool.listed(), again
    assert where.rows() == [asdict(row) for row in ROWS()]


def test_every_equation_of_the_book_has_its_function():
    found = {row.equation for row in ROWS()}
    for word in whereabouts.notebooks():
        missing = set(whereabouts.labels(word)) - found
        assert not missing, (
            f"{missing}: end the docstring of what computes it with 'Chapter: {word} (eq-...)'"
        )


def test_every_row_is_true():
    for row in ROWS():
        is_true(row)


def is_true(row):
    module, _, name = row.function.rpartition(".")
    assert (ROOT / "mathlib" / f"{module.replace('.', '/')}.py").exists()
    assert row.chapter in WORDS, f"{row.chapter} is no chapter: expected one of {sorted(WORDS)}"
    assert row.section or not row.equation, row
    if row.equation:
        assert row.equation in whereabouts.labels(row.chapter), (
            f"{row.chapter} has no {row.equation}"
        )
    for test in row.tests:
        assert name and (ROOT / test).exists(), row
    for run in row.runs:
        inner, _, function = run.rpartition(".")
        assert hasattr(importlib.import_module(f"mathlib.{inner}"), function), row
    assert set(row.experiments) <= set(registry()), row
    assert row.says, row


def test_every_public_formula_says_its_place():
    told = {row.function for row in ROWS()}
    for module, name, _ in whereabouts.functions(whereabouts.FORMULAS):
        kind = getattr(importlib.import_module(f"mathlib.{module}"), name)
        if f"{module}.{name}".partition(".")[2].startswith(tuple(STEPS)):
            continue
        if callable(kind) and not isinstance(kind, type):
            assert f"{module}.{name}" in told, (
                f"end the docstring of {module}.{name} with 'Chapter: <word> (eq-...)', "
                f"the word being one of {', '.join(sorted(WORDS))}"
            )


@pytest.mark.parametrize(
    ("words", "function", "run"),
    [
        ("bytes a rank sends", "traffic.comm.sent", "trials.collectives.bytes_sent"),
        ("6pd", "compute.flops.six_nd", ""),
        ("kv cache", "memory.inference.kv_cache", ""),
        ("zero stage", "traffic.volumes.zero", ""),
        ("bubble", "plan.bill.device_time", ""),
        ("rounding", "traffic.rounding.error", "trials.collectives_sums.errors"),
    ],
)
def test_what_strangers_looked_for_is_found(words, function, run):
    found = [row for row in where.search(words) if row["function"] == function]
    assert found and (not run or any(run in row["runs"] for row in found))


def test_a_word_that_is_nowhere_is_refused_in_one_line(capsys):
    with pytest.raises(InputError, match="words = 'xyzzy'"):
        where.search("xyzzy")
    assert main(["where", "xyzzy"]) == 2
    told = capsys.readouterr().err
    assert "'Where is what'" in told and "book/" not in told, "an installed library has no book"
