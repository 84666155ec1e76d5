"""SVG as PNG in the book's sans-serif face, without a browser."""

import tempfile
from functools import cache
from pathlib import Path

import resvg_py
from faces import FACES
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

FAMILY = "Source Sans 3"
WEIGHTS = 400, 600  # of words, of bold ones


def png(svg: str, root: Path, width: int) -> bytes:
    """The picture so many pixels wide; `root` is the book's folder, where the faces lie."""
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg, width=width, skip_system_fonts=True, font_files=list(fonts(root))
        )
    )


@cache
def fonts(root: Path) -> tuple[str, ...]:
    """The face as files of one weight each: what draws here reads no variable font."""
    package, file = FACES["sans"]
    source = root / f"book/live/node_modules/@fontsource-variable/{package}/files/{file}.woff2"
    return tuple(str(_of_weight(source, weight, Path(folder().name))) for weight in WEIGHTS)


@cache
def folder() -> tempfile.TemporaryDirectory:
    """Where they lie until the program ends."""
    return tempfile.TemporaryDirectory(prefix="faces-")


def _of_weight(source: Path, weight: int, folder: Path) -> Path:
    font = instancer.instantiateVariableFont(TTFont(source), {"wght": weight})
    font["OS/2"].usWeightClass = weight
    for record in (1, 16):  # of the family; the file calls itself after its thinnest weight
        font["name"].setName(FAMILY, record, 3, 1, 0x409)
    font.flavor = None
    file = folder / f"{weight}.ttf"
    font.save(file)
    return file
