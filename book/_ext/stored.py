"""What the chapters hold. A notebook is read once a build, however many pages ask."""

import json
from functools import cache
from pathlib import Path


def notebook(chapter: Path) -> dict:
    """A chapter as it is stored, to be read only."""
    return _read(chapter, chapter.stat().st_mtime_ns)


@cache
def _read(chapter: Path, changed: int) -> dict:
    return json.loads(chapter.read_text("utf-8"))


def html_outputs(chapter: Path) -> list[str]:
    """The HTML of its outputs, in reading order."""
    outputs = [o for cell in notebook(chapter)["cells"] for o in cell.get("outputs", [])]
    return ["".join(o.get("data", {}).get("text/html", "")) for o in outputs]
