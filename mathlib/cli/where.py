"""Where a formula stands: the rows of the book's page "Where is what", which tools/map.py writes
beside this file, too.

To read them from the code and the chapters takes a second, and an installed library has none.
"""

import json
import os

from mathlib.checks import InputError

PLACES = f"{os.path.dirname(__file__)}/where.json"  # noqa: PTH120, as in specs
FIELDS = ("function", "says", "chapter", "equation", "section", "experiments", "runs")


def rows() -> list[dict]:
    """All formulas, and those functions of the runs that an equation belongs to."""
    with open(PLACES, encoding="utf-8") as file:  # noqa: PTH123
        return json.load(file)


def search(words: str) -> list[dict]:
    """The rows in which all words occur, those whose function or equation is meant first."""
    wanted = words.lower().replace("_", " ").replace("-", " ").split()
    hits = [row for row in rows() if all(word in _text(row, *FIELDS) for word in wanted)]
    if not hits or not wanted:
        raise InputError(
            f"words = {words!r}: expected words of a formula's name, sentence, chapter, "
            "equation or run, such as 'ring' or 'bytes a parameter'; the book's page 'Where is "
            "what' lists all"
        )
    return sorted(hits, key=lambda row: wanted[0] not in _text(row, "function"))


def _text(row: dict, *fields: str) -> str:
    told = " ".join(str(row[name]) for name in fields)
    return told.lower().replace("_", " ").replace("-", " ")
