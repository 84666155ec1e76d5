"""Charts of plain numbers: bars of bytes or seconds and curves, with what they say in words."""

from charts import drawn, unreadable, words

from mathlib.show import byte_bars, curves


def test_bars_of_bytes_say_their_sums():
    shown = byte_bars({"a": {"weights": 1e9, "gradients": 2e9}}, title="T", limit=2e9)
    assert repr(shown) == "T: a 3 GB" and "limit: 2 GB" in words(drawn(shown))
    assert not unreadable(shown)


def test_a_limit_may_have_a_name():
    shown = byte_bars({"a": {"weights": 1e9}}, title="T", limit=2e9, limit_label="one device")
    assert "one device: 2 GB" in words(drawn(shown))


def test_curves_say_what_is_drawn_against_what():
    shown = curves({"c": [(1, 2), (3, 4)]}, title="T", x_title="x", y_title="y")
    assert repr(shown) == "T: y against x, c" and not unreadable(shown)


def test_both_take_a_caption_and_a_name():
    shown = curves(
        {"c": [(1, 2)]}, title="T", x_title="x", y_title="y", caption="So it is.", name="so"
    )
    assert 'id="fig-so"' in shown._repr_html_() and "So it is." in shown._repr_html_()
    shown = byte_bars({"a": {"weights": 1}}, title="T", caption="So it is.", name="so")
    assert 'id="fig-so"' in shown._repr_html_()
