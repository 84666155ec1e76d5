"""The poster shows all five axes, and its files are as new as the drawing."""

import poster as tool
import pytest
from charts import drawn, frame, said, widths, words
from PIL import Image

from mathlib.show import says
from mathlib.show.schemes import five_axes, poster


def test_every_axis_is_told_with_its_formula_and_its_bytes():
    for chart in widths(poster.poster()):
        text = " ".join(words(chart))
        for axis in five_axes.axes():
            assert axis.formula in text and says.size(axis.sent) in text
            assert axis.name in said(chart) and axis.sends in said(chart)


def test_bars_of_all_axes_have_one_scale():
    picture = drawn(poster.poster())
    bars = [r for r in picture.iter() if r.get("height") == "7" and r.get("fill") == "#a76fd6"]
    seconds = [a.sent / rate for a in five_axes.axes() for rate in five_axes.links().values()]
    long = [(float(bar.get("width")), time) for bar, time in zip(bars, seconds, strict=True)]
    scale = max(wide / time for wide, time in long if time > 2)
    for wide, time in long:
        assert wide == pytest.approx(max(1, time * scale), abs=0.1)


def test_the_files_are_as_new_as_the_drawing():
    svg, png = tool.FILES
    ask = "run `python tools/poster.py` and commit what it writes"
    assert svg.read_text("utf-8") == tool.on_paper(), ask
    with Image.open(png) as image:
        assert image.text[tool.MADE_FROM] == tool.checksum(tool.on_paper()), ask
        assert image.width == tool.PIXELS


def test_paper_is_white_and_a_portrait():
    wide, high = frame(widths(tool.on_paper())[0])
    assert 1.2 < high / wide < 1.5
    assert f'width="{wide:g}" height="{high:g}" fill="#fff"' in tool.on_paper()
