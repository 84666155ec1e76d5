"""What a GPU did, as `bench/device.py --device cuda --keep` recorded it.

A record is a file of bench/results with a device, the date and the command that made it. A page
asks for the parts that belong to it, and reads as well where there is none.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mathlib.checks import one_of
from mathlib.show import says
from mathlib.show.charts import curves
from mathlib.show.tables import Shown, table

Rows = tuple[list[str], list[list[Any]]]  # head, rows
MEANS = {
    "matmuls": "FLOP/s of matmuls, by size and type",
    "streams": "bytes a second, read and written, by size",
    "kept": "bytes kept for backward",
    "memory": "memory of a step, part by part",
    "decode": "tokens a second in decoding, by batch",
}


def newest(folder: str | Path) -> dict[str, Any] | None:
    """The record of the last day on which a device was recorded."""
    found = (json.loads(file.read_text("utf-8")) for file in Path(folder).glob("*.json"))
    records = [one for one in found if "device" in one]
    return max(records, key=lambda one: one["date"]) if records else None


def _matmuls(found: list[dict[str, Any]]) -> Rows:
    types = list(dict.fromkeys(one["dtype"] for one in found))
    rates: dict[tuple[int, ...], dict[str, str]] = {}
    for one in found:
        shape = one["rows"], one["inner"], one["columns"]
        rates.setdefault(shape, {})[one["dtype"]] = says.speed(one["flop_per_second"])
    names = {shape: " × ".join(f"{side:,}" for side in shape) for shape in rates}
    return ["matmul", *types], [[names[s], *(rates[s][t] for t in types)] for s in rates]


def _streams(found: list[dict[str, Any]]) -> Rows:
    rows = [
        [says.size(one["bytes"]), says.rate(one["bytes_per_second"])]
        for one in found
        if "bytes" in one
    ]
    idle = [one["launch_seconds"] for one in found if "launch_seconds" in one]
    return ["vector", "rate"], [*rows, *(["nothing, a launch alone", says.time(t)] for t in idle)]


def _kept(found: list[dict[str, Any]]) -> Rows:
    sizes = ("formula_bytes", "saved_bytes")
    rows = [[one["attention"], one["dtype"], *(says.size(one[s]) for s in sizes)] for one in found]
    return ["attention", "type", "predicted", "measured"], rows


def _memory(found: list[dict[str, Any]]) -> Rows:
    (one,) = found
    parts = one.get("parts", {"foreseen": one.get("foreseen_bytes")})
    rows = [[name, says.size(size)] for name, size in parts.items()]
    total = ["all that is gone", says.size(sum(parts.values()))]
    return ["part", "size"], [*rows, total if "parts" in one else ["measured", one["missing"]]]


def snapshot(found: list[dict[str, Any]]) -> list[Shown]:
    """A step's memory as the device's allocator recorded it, with the formula's peak as a line; a
    CPU has no such recording.
    """
    (one,) = found
    line = list(enumerate(one.get("timeline_bytes", ())))
    if not line:
        return []
    told = {"x_title": "every 50th event of the allocator", "y_title": "bytes"}
    limit = {"limit": one["parts"]["foreseen"], "limit_label": "foreseen"}
    drawn = {"allocated": line}
    return [curves(drawn, title="Memory of one step, recorded", show_y=says.size, **told, **limit)]


def _decode(found: list[dict[str, Any]]) -> Rows:
    rates = ("formula_tokens_per_second", "tokens_per_second")
    rows = [[one["batch"], one["dtype"], *(float(one[rate]) for rate in rates)] for one in found]
    return ["sequences", "type", "predicted, tokens a second", "measured"], rows


ROWS: dict[str, Callable[[list[dict[str, Any]]], Rows]] = {
    "matmuls": _matmuls,
    "streams": _streams,
    "kept": _kept,
    "memory": _memory,
    "decode": _decode,
}


def recorded(*sections: str, folder: str | Path = "../bench/results") -> Shown | None:
    """These sections of the newest record as tables; nothing where no device was recorded."""
    asked = [one_of("section", section, MEANS) for section in sections]
    record = newest(folder)
    if record is None:
        return None
    by = f"{record['device']}, {record['date']}, {record['command']}"
    shown: list[Shown] = []
    for one in asked:
        shown.append(table(*ROWS[one](record[one]), f"{MEANS[one]}: {by}"))
        shown += snapshot(record[one]) if one == "memory" else []
    return Shown("".join(one._repr_html_() for one in shown), "\n\n".join(map(repr, shown)))
