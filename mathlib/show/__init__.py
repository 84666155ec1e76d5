"""How things look: pictures, tables, experiments. Importing it teaches every sum of parts to draw
itself; what notebooks call is loaded when it is asked for, so that a page's Python, which draws
without most of it, starts sooner.
"""

from importlib import import_module
from typing import Any

from mathlib import parts as _parts
from mathlib.show.pictures import parts_picture

_HOMES = {
    "byte_bars": "charts",
    "compare": "comparison",
    "curves": "charts",
    "explore": "widgets",
    "figure": "figures",
    "graph": "drawing",
    "memory_line": "memory_chart",
    "parts_bar": "pictures",
    "predict": "prediction",
    "ranks_timeline": "timelines",
    "schedule_chart": "gantt",
    "source": "tables",
    "table": "tables",
    "verdict": "ledger",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


_parts.renderer = parts_picture
