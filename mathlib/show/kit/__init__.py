"""The drawing kit: letters, a sheet of SVG, shapes, and a canvas that lays them out."""

from mathlib.show.kit.canvas import Canvas
from mathlib.show.kit.shapes import (
    Shape,
    beside,
    box,
    grid,
    matrix,
    panel,
    stacked,
    strip,
    words,
)

__all__ = [
    "Canvas",
    "Shape",
    "beside",
    "box",
    "grid",
    "matrix",
    "panel",
    "stacked",
    "strip",
    "words",
]
