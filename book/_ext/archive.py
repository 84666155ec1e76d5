"""The library as the reader's browser gets it."""

import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

NOT_IN_BROWSER = {  # real runs, and data that no experiment reads; of the rest, what none imports
    *("launch", "meters", "model", "parallel", "cli", "trials", "workshop", "__pycache__"),
    *("__main__.py", "claims.toml", "configurations.toml", "launches.toml", "sweeps.toml"),
    *("conventions.toml", "printed.toml", "published"),
}
OF_CELLS = ("trials", "sweeps.toml")  # what cells of chapters read besides


@cache
def library_zip(package: Path, room: str = "", *more: str) -> bytes:
    """The library's sources as a zip whose bytes depend on nothing but them; of a room alone, which
    is not in the whole; with what else is not.
    """
    out, left_out = BytesIO(), NOT_IN_BROWSER - {room, *more}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((package / room).rglob("*")):
            inside = path.relative_to(package.parent)
            if path.suffix in (".py", ".toml") and not left_out & set(inside.parts):
                archive.writestr(
                    zipfile.ZipInfo(inside.as_posix(), (1980, 1, 1, 0, 0, 0)),
                    path.read_bytes(),
                    zipfile.ZIP_DEFLATED,
                )
    return out.getvalue()


def cells_zip(package: Path) -> bytes:
    """The library with what only cells of chapters need."""
    return library_zip(package, "", *OF_CELLS)
