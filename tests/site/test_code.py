"""Code on the page: it fits, has colours, names its file, and folds where it is not the point."""

import contents
import pytest
from finish import CODE, COLOURED, TOKEN
from folding import only_imports, words
from ipython_pygments_lexers import IPython3Lexer
from listings import LISTING, dress, without_address
from pages import CHAPTERS as BOOKS
from pages import ROOT, chapter_pages, code_cells
from pygments.lexers import PythonLexer
from thrift import Cell

CHAPTERS = chapter_pages()
WIDE = {"width": 1280, "height": 900}
CUT = """() => [...document.querySelectorAll(
    'article :is(pre, .katex-display, table)')].filter((e) => {
    let box = e;  // what scrolls, or would: the thing itself or a frame around it
    const scrolls = (x) => /auto|scroll|hidden/.test(getComputedStyle(x).overflowX);
    while (box.tagName !== 'ARTICLE' && !scrolls(box)) box = box.parentElement;
    return e.checkVisibility() && box.tagName !== 'ARTICLE' &&
        box.scrollWidth > box.clientWidth + 1;
}).map((e) => {
    const lines = e.innerText.split('\\n');
    return e.tagName + ': ' + lines.reduce((a, b) => (b.length > a.length ? b : a)).slice(0, 120);
})"""
SHADED = """() => [...document.querySelectorAll('article *')].filter((e) =>
    e.checkVisibility() && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1 &&
    /auto|scroll/.test(getComputedStyle(e).overflowX) &&
    !getComputedStyle(e).backgroundAttachment.includes('local'))
    .map((e) => `${e.tagName}.${e.className}: ${e.innerText.slice(0, 60)}`)"""
COLOURS = "es => new Set(es.map(e => getComputedStyle(e).color)).size"


def test_no_code_no_formula_and_no_table_is_cut_at_1280(desk):
    assert desk.page.viewport_size["width"] == 1280
    assert desk.page.evaluate(CUT) == []


def test_what_scrolls_sideways_on_a_phone_shows_that_there_is_more(phone):
    assert phone.page.evaluate(SHADED) == []


def test_code_has_no_element_without_a_colour(site):
    for page in sorted(site.rglob("*.html")):
        code = "".join(CODE.findall(page.read_text("utf-8")))
        assert {kind for kind, _ in TOKEN.findall(code)} <= COLOURED, page


def test_a_line_of_88_characters_and_a_folded_one_of_100_fit_the_column_and_can_be_read(visit):
    page = visit(CHAPTERS[0], viewport=WIDE).page
    for which, letters, size in ((":not(details *)", 88, 12.5), (":is(details *)", 100, 11)):
        block = page.locator(f"article div.cell_input pre{which}").first
        block.evaluate("e => { for (let up = e; up; up = up.parentElement) up.open = true; }")
        block.evaluate("(e, n) => { e.textContent = 'x'.repeat(n); }", letters)
        assert block.evaluate("e => e.scrollWidth <= e.clientWidth"), which
        assert block.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") >= size


def test_a_record_that_no_device_has_made_leaves_no_cell(site):
    for path in BOOKS:
        text = (site / f"{contents.page(ROOT, path)}.html").read_text("utf-8")
        asks = [cell for cell in code_cells(path) if cell.source.startswith("recorded(")]
        shown = sum(bool(cell.outputs) for cell in asks)
        assert text.count("<pre>recorded(") == shown, path.stem


def test_folded_code_is_one_quiet_line_below_its_result(plain):
    page = plain.page
    assert "code cell source" not in page.content()
    cells = page.locator(".cell.tag_hide-input")
    assert cells.count() or plain.name not in CHAPTERS
    assert cells.evaluate_all(LOUD) == []
    if cells.count():
        first = page.locator(".cell.tag_hide-input:not(details *)").first
        for visible in (True, False):  # as it was, for the next test
            first.locator("details.mlx-fold > summary").focus()
            page.keyboard.press("Enter")
            assert first.locator(".cell_input pre").first.is_visible() == visible


LOUD = """all => all.filter((cell) => {
    // an experiment or a listing has no code beside it
    if (cell.querySelector(':scope > .cell_output :is(.mlx, .mlx-listing)')) return false;
    const lines = cell.querySelectorAll('details.mlx-fold > summary');
    if (lines.length !== 1) return true;
    if (cell.parentElement.closest('details:not([open])')) return false; // a closed solution
    const [line] = lines, result = cell.querySelector('.cell_output');
    const top = (e) => e.getBoundingClientRect().top;
    return !line.checkVisibility() || (result && top(result) >= top(line))
        || cell.querySelector('.cell_input pre').checkVisibility();
}).map((cell) => cell.textContent.trim().slice(0, 80))"""
LINES_ALONE = """() => [...document.querySelectorAll('article .cell')]
    .filter((cell) => !cell.closest('details.solution') && !cell.querySelector('.cell_output')
        && [...cell.children].every((part) => part.matches('details.mlx-fold')))
    .map((cell) => cell.textContent.trim().slice(0, 80))"""
UNFOLDING = """() => [...document.querySelectorAll('article .cell > details.mlx-fold')]
    .map((line) => [...line.querySelectorAll('.cell_input pre')].map((e) => e.textContent))"""


def test_each_quiet_line_belongs_to_a_result(desk):
    assert desk.page.evaluate(LINES_ALONE) == []


def test_what_one_line_unfolds_is_in_the_order_it_ran(desk):
    chapter = ROOT / f"{desk.name}.ipynb"
    cells = [cell.source.strip() for cell in code_cells(chapter)] if chapter.exists() else []
    unfolding = desk.page.evaluate(UNFOLDING)
    lines = [[cells.index(code.strip()) for code in line] for line in unfolding]
    assert lines or not cells
    assert [line for line in lines if line != sorted(line)] == []


def test_an_experiment_and_a_listing_need_no_line_of_code(desk):
    page = desk.page
    shown = page.locator(".cell_output :is(.mlx, .mlx-listing)").count()
    assert shown or desk.name not in CHAPTERS
    calls = page.locator(".cell_input pre").all_inner_texts()
    assert not [call for call in calls if call.startswith(("explore(", "source("))]


def test_a_solution_waits_under_its_title_without_scripts(plain):
    page = plain.page
    solutions = page.locator("details.solution")
    assert solutions.count() or plain.name not in CHAPTERS
    assert page.locator("[id=exercise-content]").count() == 0
    for solution in solutions.all():
        assert solution.locator("summary").first.inner_text().startswith("Solution to Exercise")
        assert solution.evaluate("e => !e.open")


@pytest.mark.parametrize(
    ("code", "shown", "wanted"),
    [
        ("import torch\nfrom mathlib import specs", "", "imports"),
        ("import torch\nx = 1", "", "preparation"),
        ("verdict('C01')", '<section class="mlx-verdict">', "how this was tried"),
        ("x", '<section class="mlx-predict">', "how the answer was found"),
        ("x", '<details class="mlx-compared">', "how this was measured"),
        ("x", "<figure><svg>", "how this was drawn"),
        ("x", '<table class="mlx-table">', "how this was made"),
    ],
)
def test_the_line_says_what_the_cell_did(code, shown, wanted):
    assert words(code, shown) == wanted
    assert not only_imports("%magic") and not only_imports("")


def test_a_cell_without_magics_is_read_as_python_and_has_the_same_colours(monkeypatch):
    cells = [cell.source for cell in code_cells(BOOKS[0])]
    for code in (*cells, "%time x = 1", "!ls\nx = 1", "x?", "y = !ls"):
        assert list(Cell().get_tokens(code)) == list(IPython3Lexer().get_tokens(code)), code
    monkeypatch.setattr(PythonLexer, "get_tokens_unprocessed", lambda *given: iter(()))
    assert [word for _, word in Cell().get_tokens("x = 1")] == []


def test_listings_are_coloured_and_their_text_is_unchanged(visit):
    body = (
        '<p class="mlx-file">mathlib/a/b.py</p><pre tabindex="0"><code>x = "&lt;a&gt;"</code></pre>'
    )
    dressed = dress(body, "https://github.com/o/n")
    assert 'href="https://github.com/o/n/blob/main/mathlib/a/b.py">mathlib/a/b.py</a>' in dressed
    assert '<div class="highlight"><pre tabindex="0">' in dressed and "&lt;a&gt;" in dressed
    assert "<a href" not in dress(body, ""), "no address, no link"
    name = next(n for n in CHAPTERS if "collectives" in n)
    listing = visit(name).page.locator(".mlx-listing pre > code").first
    assert listing.locator("span").evaluate_all(COLOURS) >= 4


def test_a_listing_does_not_say_in_which_chapter_it_stands(site):
    long = f'    """{"x" * 80}.'
    ends = '\n\n    Chapter: a (eq-b,\n    eq-c)\n    Chapter: d\n    """\n    return 1'
    assert without_address(f'    """Adds.{ends}') == '    """Adds."""\n    return 1'
    assert without_address(long + ends) == f'{long}\n    """\n    return 1'
    assert without_address('    """Adds.\n\n    Twice.' + ends).endswith(
        '\n    Twice.\n    """\n    return 1'
    )
    pages = [(site / f"{name}.html").read_text("utf-8") for name in CHAPTERS]
    assert not [page for page in pages if "jupyter-book/blob" in page], "another book's files"
    listings = [code for page in pages for code in LISTING.findall(page)]
    assert len(listings) > 20 and not [code for code in listings if "Chapter: " in code]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_has_one_palette(look, scheme):
    page = look(CHAPTERS[0]).seen(WIDE, scheme=scheme).page
    assert 3 <= page.locator("article .highlight pre span").evaluate_all(COLOURS) <= 6
