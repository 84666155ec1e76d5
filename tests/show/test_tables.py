"""Tables and small pictures as the last line of a cell: the same content in HTML and in words."""

import re

import pytest
from charts import boxes, drawn, outside

from mathlib import units
from mathlib.checks import InputError
from mathlib.parts import Parts
from mathlib.show import byte_bars, curves, source, table


def test_a_table_says_the_same_in_both_forms():
    shown = table(
        ["way", "steps", "seconds"], [["ring", 12345, 1.5], ["a & b", 7, "-"]], "Two ways"
    )
    html = shown._repr_html_()
    assert re.findall(r'<th scope="col">([^<]*)', html) == ["way", "steps", "seconds"]
    assert re.findall(r'<th scope="row">([^<]*)', html) == ["ring", "a &amp; b"]
    assert re.findall(r"<td>([^<]*)", html) == ["12,345", "1.50", "7", "-"]
    assert repr(shown).splitlines() == [
        "Two ways",
        "way    steps   seconds",
        "ring   12,345  1.50",
        "a & b  7       -",
    ]


def test_no_cell_is_taken_for_html():
    html = table(["<i>", "two"], [["<b>", "<u>"]], "<s>")._repr_html_()
    assert not {"<i>", "<b>", "<u>", "<s>"} & set(re.findall("<[^>]*>", html))


def test_a_table_refuses_a_row_that_is_too_short_and_shows_it():
    with pytest.raises(InputError, match=r"row = \['b'\]: expected 2 cells"):
        table(["one", "two"], [["a", 1], ["b"]])


def test_a_table_without_rows_or_caption_is_its_head():
    shown = table(["one", "two"], [])
    assert repr(shown) == "one  two" and "<caption>" not in shown._repr_html_()


def test_curves_take_plain_numbers_and_name_their_axes():
    shown = curves({"a": [(1, 2), (1000, 4)]}, title="T", x_title="ranks", y_title="ms", log_x=True)
    assert repr(shown) == "T: ms against ranks, a"
    assert not outside(drawn(shown)) and "4 at 1,000" in shown._repr_html_()


def test_byte_bars_say_their_totals_and_cross_out_what_is_too_much():
    rows = {"small": {"weights": 1e9}, "large": {"weights": 2e9, "gradients": 3e9}}
    shown = byte_bars(rows, title="T", limit=4e9)
    assert repr(shown) == "T: small 1 GB, large 5 GB"
    width = {hint: place[2] for hint, place in boxes(drawn(shown)).items()}
    assert width["large, gradients: 3 GB"] == pytest.approx(
        3 * width["small, weights: 1 GB"], abs=0.2
    )
    assert "large: 5 GB, over the limit" in shown._repr_html_()


def test_source_shows_a_method_at_the_margin():
    shown = str(source(units.show, Parts.share))
    assert shown.startswith("def show(") and "\n\ndef share(self" in shown
    html = source(Parts.__str__)._repr_html_()
    assert "{n:&lt;{wide}}" in html, "code is no HTML"


def test_columns_of_numbers_and_of_words_stand_on_their_own_side():
    html = table(["way", "time", "why"], [["a", "1.5 ms", "slow"], ["b", "12 us", "fast"]])
    html = html._repr_html_()
    assert '<td>1.5\u00a0ms</td><td class="mlx-words">slow</td>' in html
    assert "<td>12\u00a0µs</td>" in html
    html = table(["way", "error"], [["a", "< 0.01"], ["b", "none"]])._repr_html_()
    assert "mlx-words" not in html and "<td>none</td>" in html


def test_a_listing_names_its_file_and_a_notebooks_own_code_none():
    html = source(units.show, Parts.share)._repr_html_()
    names = re.findall(r'<p class="mlx-file">([^<]*)', html)
    assert names == ["mathlib/units.py", "mathlib/parts.py"]
    assert "mlx-file" not in source(test_a_table_says_the_same_in_both_forms)._repr_html_()


def test_a_note_stands_beside_a_listing():
    shown = source(units.show, note="Reads a number & its unit.")
    assert str(shown).endswith("Reads a number & its unit.")
    html = shown._repr_html_()
    assert '<div class="mlx-noted"><div><div class="mlx-listing">' in html
    assert html.endswith('<p class="mlx-beside">Reads a number &amp; its unit.</p></div>')
    assert "mlx-noted" not in source(units.show)._repr_html_()
