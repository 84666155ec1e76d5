"""Answers that nobody has asked for before, by experiment, in seconds of processor.

An answer, ours: an experiment's page for settings in which each control stands at its start or, as
often, anywhere, in a CPython that has answered once. What functions remember is emptied before
each, but not the tables of models and devices; the quickest of three tries counts, as others may be
at work. The aim: the reader waits 50 ms, and Python in the browser takes three times as long.
`p90_seconds`: nine of ten answers take no longer.
"""

import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import rounds

AIM = 0.050 / 3  # seconds
TABLES = ("mathlib.specs", "mathlib.show.experiments")  # what every answer of a live page finds


def drawn(one: Any, count: int) -> list[dict[str, Any]]:
    """Settings, the same in each run; a text that a reader would type stays as it is."""
    by_chance = random.Random(one.id)
    offers = {c.name: (c.default, c.offers() or [c.default]) for c in one.controls}
    return [
        {
            name: by_chance.choice((start, by_chance.choice(values)))
            for name, (start, values) in offers.items()
        }
        for _ in range(count)
    ]


def forget() -> None:
    """Empty what the library's functions remember."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mathlib.") and name not in TABLES:
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and value.__module__ not in TABLES:
                    value.cache_clear()


def seconds(one: Any, settings: dict[str, Any]) -> float:
    """The quickest of three tries."""
    tries = []
    for _ in range(3):
        forget()
        begin = time.process_time()
        one.page(settings)
        tries.append(time.process_time() - begin)
    return min(tries)


def rows(quick: bool) -> Iterator[dict]:
    from mathlib.show.experiments import registry

    for id, one in sorted(registry().items()):
        one.page()
        times = [seconds(one, settings) for settings in drawn(one, 3 if quick else 30)]
        p90 = round(sorted(times)[9 * len(times) // 10], 7)
        candidates = {"answer": times, "the aim": [AIM] * len(times)}
        yield rounds.row(id, candidates, "answer", "the aim", p90_seconds=p90)
