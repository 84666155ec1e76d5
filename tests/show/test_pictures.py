"""A sum of parts as a picture, with every part and its share beneath."""

import re

from charts import boxes, drawn

from mathlib.parts import Parts
from mathlib.show import parts_bar
from mathlib.show.pictures import parts_picture

INNER = Parts("act", "byte", {"attention": 1e9, "mlp": 3e9})


def test_sums_of_parts_draw_themselves():
    html = Parts("Memory", "byte", {"weights": 4e9, "activations": INNER})._repr_html_()
    assert "<svg" in html and "12.5%" in html and "37.5%" in html and "8 GB" in html


def test_the_bar_holds_the_outer_parts_and_the_table_all():
    html = parts_picture(Parts("Memory", "byte", {"weights": 4e9, "activations": INNER}))
    width = {hint: place[2] for hint, place in boxes(drawn(html)).items()}
    assert list(width) == ["total, weights: 4 GB", "total, activations: 4 GB"]
    assert len(set(width.values())) == 1
    names = re.findall(r'<th scope="row" style="padding-left:([\d.]+)em">([^<]*)', html)
    assert names == [
        ("0.3", "weights"),
        ("0.3", "activations"),
        ("1.5", "attention"),
        ("1.5", "mlp"),
    ]


def test_binary_units_stay_binary_and_names_are_escaped():
    html = parts_picture(Parts("a < b", "byte", {"x & y": 2**30}, binary=True))
    assert "1 GiB" in html and "GB" not in html
    assert "a &lt; b" in html and "x &amp; y" in html and "a < b" not in html
    assert "x & y" not in html


def test_amounts_have_three_digits_and_units_are_typeset():
    html = parts_picture(Parts("Time", "second", {"work": 1.26349, "latency": 279.94e-6}))
    assert "<td>1.26 s</td>" in html and "<td>280 µs</td>" in html
    assert "1.263" not in html and "279.9" not in html


def test_a_sum_of_nothing_has_no_shares():
    html = parts_picture(Parts("Nothing", "byte", {"weights": 0}))
    assert "%</td>" not in html and "0 byte" in html


def test_in_a_chapter_it_has_a_caption_and_a_name():
    shown = parts_bar(Parts("Memory", "byte", {"weights": 4e9}), caption="All of it.", name="all")
    html = shown._repr_html_()
    assert html.startswith('<figure class="mlx-figure mlx-parts" id="fig-all">')
    assert html.endswith("<figcaption>All of it.</figcaption></figure>")
    assert repr(shown).startswith("Memory\n  weights")
