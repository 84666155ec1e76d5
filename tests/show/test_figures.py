"""Every picture of the library, in both widths: nothing leaves its frame, no words touch."""

import pytest
from charts import SPACE, drawn, said, unreadable, widths
from pictures import SCHEMES

from mathlib.checks import InputError
from mathlib.show import figure
from mathlib.show.experiments import registry
from mathlib.show.kit import Canvas
from mathlib.show.kit.sheet import NARROW, WIDE


def draw(width):
    page = Canvas(width, "One box")
    page.row(page.box("words"))
    return page.done("A box")


def test_a_figure_has_both_widths_and_its_sentence():
    html = figure(draw, caption="It is < so.", name="box")._repr_html_()
    assert html.startswith('<figure class="mlx-figure" id="fig-box">')
    assert html.endswith("<figcaption>It is &lt; so.</figcaption></figure>")
    assert [one.get("viewBox").split()[2] for one in widths(html)] == [str(WIDE), str(NARROW)]


def test_without_a_name_there_is_no_place_to_point_at():
    html = figure(draw)._repr_html_()
    assert " id=" not in html.split("<svg")[0] and "figcaption" not in html


@pytest.mark.parametrize("name", ["Ring", "a b", "1st", "a_b"])
def test_a_name_that_is_no_address_is_refused(name):
    with pytest.raises(InputError, match="name"):
        figure(draw, caption="So.", name=name)


def test_a_named_figure_says_something():
    with pytest.raises(InputError, match="caption"):
        figure(draw, name="ring")


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_fits_both_widths(name):
    html = SCHEMES[name]()._repr_html_()
    assert not unreadable(html)
    assert "<figcaption>" in html and len(said(drawn(html))) > 20


@pytest.mark.parametrize("id", registry())
def test_an_experiment_begins_with_a_picture_that_fits(id):
    assert not unreadable(registry()[id].run())


@pytest.mark.parametrize("name", SCHEMES)
def test_words_are_large_enough(name):
    for chart, least in zip(widths(SCHEMES[name]()), (13, 12), strict=True):
        assert min(float(t.get("font-size")) for t in chart.iter(f"{SPACE}text")) >= least


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_is_the_same_every_time(name):
    assert SCHEMES[name]()._repr_html_() == SCHEMES[name]()._repr_html_()
