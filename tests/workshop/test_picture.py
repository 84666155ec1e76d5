"""Every puzzle has a picture, whose parts are known roles and which fits a small phone."""

import re

import pytest

from mathlib.show.roles import ROLES
from mathlib.workshop import grade
from mathlib.workshop.picture import picture
from mathlib.workshop.sketch import Part, words


@pytest.mark.parametrize("puzzle", grade.every(), ids=lambda one: one.name)
def test_a_puzzle_is_drawn(puzzle):
    before, after = puzzle.sketch.rows
    assert before != after and all(map(len, puzzle.sketch.rows)) and any(before) and any(after)
    roles = {one.role for rows in (before, after) for row in rows for one in row if is_box(one)}
    assert roles <= set(ROLES)
    html = picture(puzzle)._repr_html_()
    assert words(puzzle.sketch) in html and "<figcaption>What each " in html
    for side in re.findall(r'<svg[^>]*width="([\d.]+)"', html):
        assert float(side) > 0


@pytest.mark.parametrize("puzzle", grade.every(), ids=lambda one: one.name)
def test_a_narrow_picture_has_nothing_beyond_its_edge(puzzle):
    html = picture(puzzle)._repr_html_()
    (narrow,) = re.findall(r"<svg[^>]*mlx-narrow.*?</svg>", html, re.DOTALL)
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', narrow)[1])
    boxes = re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"', narrow)
    ends = [float(x) + float(wide) for x, wide in boxes]
    assert max(ends, default=0) <= width


def is_box(part):
    return isinstance(part, Part)
