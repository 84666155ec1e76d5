"""A number and its unit stay on one line, and nothing else of a page changes."""

import re

import pytest

from mathlib.show.experiments import find
from mathlib.show.unbroken import JOINER, SPACE, unbroken

KATEX = '<span class="katex"><span class="katex-html"><span class="base">{}</span></span></span>'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("80 GB, 2.44 MB/s", "80_GB, 2.44_MB/s"),
        ("64\n  GPUs", "64_GPUs"),
        ("175B parameters", "175B_parameters"),
        ("64 <a href='a > b'>ranks</a>", "64_<a href='a > b'>ranks</a>"),
        ("<b>2</b> GB and <code>8 GB</code> GB", "<b>2</b>_GB and <code>8 GB</code> GB"),
        ("3.14 × 10<sup>23</sup> FLOP", "3.14_×_10<sup>23</sup>_FLOP"),
        ("3.14 × 10²³ FLOP", "3.14_×_10²³_FLOP"),
        ("(<i>p</i> &minus; 1)(a + b) = 3", f"(<i>p</i>_&minus;_1){JOINER}(a_+_b) = 3"),
        ("3 &sdot; 4, 3 ⋅ 4", "3_&sdot;_4, 3_⋅_4"),
        ("7 PF/s-days, 8 GPU-hours", "7_PF/s-days, 8_GPU-hours"),
        (f"{KATEX.format('x')}, y", f"{KATEX.format('x')}{JOINER}, y"),
        (f"{KATEX.format('x')} , y", f"{KATEX.format('x')} , y"),
        ("ZeRO-3's and GPUs' links, 'so'", "ZeRO-3’s and GPUs' links, 'so'"),
        ("the layers' weights", "the layers’ weights"),
        ("a rank's <code>it's</code>, don&#x27;t", "a rank’s <code>it's</code>, don’t"),
    ],
)
def test_a_unit_stays_with_its_number_and_an_apostrophe_is_curved(before, after):
    assert unbroken(f"<p>{before}</p>") == f"<p>{after}</p>".replace("_", SPACE)


@pytest.mark.parametrize(
    "html",
    [
        *("5 sheep and 3 shards", "Llama 2 7B", "<p>3</p> GB", "<td>3 </td><td>GB</td>"),
        "<pre>80 GB</pre><svg><text>80 GB</text></svg><script>80 GB</script>",
        "<p>'quoted', 5' and f'</p>",
        '<p title="80 GB">It is <code>80 GB</code>.</p><!-- 80 GB -->',
    ],
)
def test_everything_else_stays(html):
    assert unbroken(html) == html


def test_a_formula_is_a_box_that_a_space_alone_does_not_hold():
    html = KATEX.format("8") + " GPUs"
    assert unbroken(html) == KATEX.format("8") + JOINER + SPACE + "GPUs"


def test_a_page_shows_what_a_notebook_stores_but_for_spaces_and_apostrophes():
    one = find("memory")
    shown = re.sub(f"[{SPACE}{JOINER}]", " ", one.page())
    stored = re.sub("(?<=[a-z])(?:'|&#x27;)(?=[a-z])", "’", one.run().replace(SPACE, " "))
    assert shown.split() == stored.split()
    assert unbroken(one.page()) == one.page()
