"""The notation page is the only authority: every letter in a module's legend means there what the
page says.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "mathlib").rglob("*.py"))
ITEM = re.compile(r"^([A-Za-z]|alpha) ([\w-]+)")


def page() -> dict[str, str]:
    """What the page says of each letter, all its rows together."""
    said: dict[str, str] = {}
    for row in re.findall(
        r"^\| (\$.+?\$) \| (.+?) \|", (ROOT / "book" / "notation.md").read_text("utf-8"), re.M
    ):
        for letter in re.findall(r"\\?\w+", row[0]):
            letter = letter.removeprefix("\\")
            said[letter] = said.get(letter, "") + " " + row[1].lower()
    return said


def legend(module: Path) -> list[tuple[str, str]]:
    """(letter, first word of its meaning) of the lines in the module's docstring that hold a
    legend.
    """
    lines = (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").splitlines()
    items = [
        item.strip() for line in lines if " \u00b7 " in line for item in line.split(" \u00b7 ")
    ]
    return [(m[1], m[2].lower()) for item in items if (m := ITEM.match(item))]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.stem)
def test_a_legend_says_what_the_page_says(module):
    said = page()
    for letter, word in legend(module):
        assert letter in said, f"{module.name}: the page does not know {letter}"
        assert word.rstrip("s") in said[letter], (
            f"{module.name}: {letter} {word}, but the page says: {said[letter]}"
        )


def test_the_legends_are_found():
    assert sum(len(legend(module)) for module in MODULES) > 60 and len(page()) > 30


def test_the_glossary_is_in_the_order_of_the_alphabet():
    text = (ROOT / "book" / "glossary.md").read_text("utf-8").split("```{glossary}\n")[1]
    words = re.findall(r"^(\w.*)$", text, re.M)
    assert len(words) > 30 and words == sorted(words, key=str.lower)
