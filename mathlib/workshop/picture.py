"""The picture of a puzzle, drawn from its sketch: what each rank has before and after."""

from functools import partial

from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import ROLES
from mathlib.show.schemes.collectives import piece
from mathlib.show.tables import Shown
from mathlib.workshop.puzzle import Puzzle
from mathlib.workshop.sketch import Part, Row, Sketch, Sum, words

HIGH = 22.0


def picture(puzzle: Puzzle) -> Shown:
    """Two panels, a row for each rank; below each other where there is little room."""
    said = words(puzzle.sketch)
    return figure(
        partial(_panels, drawn=puzzle.sketch, title=puzzle.title, said=said),
        caption=_caption(puzzle.sketch),
        words=said,
    )


def _caption(drawn: Sketch) -> str:
    what = f"What each {drawn.who} has: {drawn.titles[0]}, and {drawn.titles[1]}."
    summed = any(not isinstance(part, Part) for rows in drawn.rows for row in rows for part in row)
    return f"{what} A sum has a slot for each rank whose term is in it." if summed else what


def _panels(width: float, drawn: Sketch, title: str, said: str) -> str:
    page = Canvas(width)
    page.name = title  # said, not drawn: the puzzle's heading stands above it
    page.bottom = page.legend([(role, ROLES[role]) for role in _roles(drawn)], page.bottom)
    longest = max(_size(row) for rows in drawn.rows for row in rows)
    wide = min(34.0, (min(width, 330) - 74) / longest)
    panels = []
    for name, rows in zip(drawn.titles, drawn.rows, strict=True):
        lines = [
            _row(page, f"{drawn.who} {r}", row, drawn.terms, wide) for r, row in enumerate(rows)
        ]
        panels.append(page.panel(name, page.stacked(*lines, gap=5, align="start")))
    page.flow(*panels, gap=30, above=10)
    return page.done(said)


def _roles(drawn: Sketch) -> list[str]:
    """Of its boxes, as they first appear."""
    boxes = [part for rows in drawn.rows for row in rows for part in row if isinstance(part, Part)]
    return list(dict.fromkeys(box.role for box in boxes if box.role != "other"))


def _size(row: Row) -> float:
    return max(1.0, sum(part.size if isinstance(part, Part) else 1.0 for part in row))


def _row(page: Canvas, name: str, row: Row, terms: int, wide: float) -> Shape:
    boxes = [_part(page, part, terms, wide) for part in row]
    label = page.words(name, small=True, anchor="start")
    return page.beside(label, page.space(max(0.0, 52 - label.wide), HIGH), *boxes, gap=3)


def _part(page: Canvas, part: Part | Sum, terms: int, wide: float) -> Shape:
    if not isinstance(part, Part):
        return piece(page, part, terms, wide=wide - 3, high=HIGH)
    return page.box(
        part.text,
        role=ROLES[part.role],
        wide=wide * part.size - 3,
        high=HIGH,
        solid=True,
        tight=True,
        hint=part.role,
    )
