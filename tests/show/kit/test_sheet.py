"""What a sheet writes: readable ink, hatches aside, ids of its own."""

from charts import SPACE, widths

from mathlib.show.kit.sheet import NARROW, WIDE, Sheet, ink, number
from mathlib.show.roles import ROLES


def test_lengths_have_one_decimal_and_no_useless_zero():
    assert (number(1.04), number(2.96), number(3)) == ("1", "3", "3.0".removesuffix(".0"))


def test_ink_is_white_on_dark_and_black_on_light():
    assert (ink("#000000"), ink("#ffffff")) == ("#fff", "#111")
    assert (ink(ROLES["weights"][0]), ink(ROLES["activations"][0])) == ("#fff", "#111")


def test_an_apostrophe_is_curled_and_a_quoted_word_stays():
    page = Sheet(WIDE)
    page.text(0, 20, "the loss's classes' 'bf16'")
    page.rect(0, 30, 9, 9, ROLES["weights"], "GELU's")
    text = page.svg("a's", "b's")
    assert "the loss’s classes’ &#x27;bf16&#x27;" in text and ">GELU’s<" in text
    assert ">a’s<" in text and ">b’s<" in text


def test_hatches_of_a_kind_are_one_path_that_is_not_shown():
    page = Sheet(WIDE)
    for x in (0, 50):
        page.rect(x, 0, 40, 10, ROLES["gradients"])
    page.rect(100, 0, 40, 10, ROLES["weights"])
    (chart,) = widths(page.svg("t", "d"))
    (hatch,) = [p for p in chart.iter(f"{SPACE}path") if p.get("class")]
    assert hatch.get("d").count("M") == 2 and hatch.get("style") == "display:none"


def test_many_cells_and_frames_are_one_path_for_each_look():
    page = Sheet(WIDE)
    for x in (0, 10, 20):
        page.cell(x, 0, 10, 10, "#112233" if x else "#445566")
        page.frame(x, 0, 10, 10, heavy=not x)
    (chart,) = widths(page.svg("t", "d"))
    paths = [(p.get("fill"), p.get("d").count("M")) for p in chart.iter(f"{SPACE}path")]
    assert paths == [("#445566", 1), ("#112233", 2), ("none", 1), ("none", 2)]
    assert page.bottom == 10


def test_words_lie_above_lines_and_lines_above_what_is_filled():
    page = Sheet(WIDE)
    page.text(0, 20, "words")
    page.line("M0 0H9")
    page.rect(0, 0, 9, 9, ROLES["weights"])
    tags = [e.tag.removeprefix(SPACE) for e in widths(page.svg("t", "d"))[0]]
    assert tags == ["title", "desc", "g", "path", "text"]


def test_small_letters_of_a_phone_are_as_large_as_it_can_read():
    wide, narrow = Sheet(WIDE), Sheet(NARROW)
    assert narrow.narrow and not wide.narrow
    assert narrow.small * 334 / NARROW > 10.5, "in a frame of 334 pixels, as in an experiment"
    assert wide.size > wide.small


def test_a_legend_goes_on_in_the_next_line():
    page = Sheet(NARROW)
    one = page.legend([("a", ROLES["weights"])], 0)
    many = page.legend([("a long name of a part", ROLES["weights"])] * 4, 0)
    assert many > one


def test_scattered_words_are_one_text_each_around_its_own_place():
    page = Sheet(WIDE)
    page.scattered(20, [(10.04, "1"), (40, "<2>")], "#fff")
    (chart,) = widths(page.svg("t", "d"))
    (text,) = chart.iter(f"{SPACE}text")
    assert text.get("text-anchor") == "middle" and text.get("fill") == "#fff"
    assert [(span.get("x"), span.text) for span in text] == [("10", "1"), ("40", "<2>")]
