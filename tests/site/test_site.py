"""The published pages in a real browser: whole, self-sufficient, reachable by everybody."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import ahead
import livebook
from pages import PREFIX, ROOT, toc_pages
from playwright.sync_api import expect

PAGE_WEIGHT = 1.5e6  # bytes a page may cost before anybody asks for Python
PAGES = toc_pages()

BLOCK_WASM = "Object.defineProperty(window, 'WebAssembly', { value: undefined });"
BEYOND = """() => {
    const inside = (e) => {  // whatever scrolls or clips by itself does not widen the page
        for (let p = e.parentElement; p; p = p.parentElement) {
            const { overflowX, position } = getComputedStyle(p);
            if (overflowX !== 'visible' && p !== document.body &&
                p !== document.documentElement) return true;
            if (position === 'fixed') return true;
        }
        return false;
    };
    return [...document.querySelectorAll('main *')].filter((e) => {
        const box = e.getBoundingClientRect();
        return box.width > 1 && box.right > window.innerWidth + 1 && !inside(e)
            && getComputedStyle(e).position !== 'fixed';
    }).map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`);
}"""
CLIPPED = """() => [...document.querySelectorAll(
    'main :is(p, li, figcaption, summary, label)')].filter((e) =>
    e.scrollWidth > e.clientWidth + 1 &&
    getComputedStyle(e).overflowX === 'hidden' && e.clientWidth > 1)
    .map((e) => e.textContent.slice(0, 60))"""

OVERLAPPING = """() => [...document.querySelectorAll('article .mlx-chart')].flatMap((chart) => {
    const words = (t) => t.querySelector('tspan[x]') ? [...t.children] : [t],
        texts = [...chart.querySelectorAll('text')].flatMap(words),
        boxes = texts.map((t) => t.getBoundingClientRect());
    const common = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
    const frame = chart.getBoundingClientRect();
    const outside = texts.filter((_, i) =>
        boxes[i].left < frame.left - 2 || boxes[i].right > frame.right + 2);
    const pairs = texts.filter((_, i) =>
        boxes.some((b, j) => j < i && common(boxes[i], b)));
    return [...outside, ...pairs].map((t) =>
        `${t.textContent} (${chart.querySelector('title').textContent})`);
})"""
MUTE = """() => [...document.querySelectorAll('article img, article svg[role=img]')].filter((e) => {
    const names = (e.getAttribute('aria-labelledby') ?? '').split(' ');
    const named = names.map((id) => document.getElementById(id)?.textContent);
    const said = e.getAttribute('alt') ?? e.getAttribute('aria-label') ?? named.join(' ');
    return said.trim().length < 8 && e.getAttribute('aria-hidden') !== 'true';
}).map((e) => e.outerHTML.slice(0, 120))"""


def test_page_is_there_and_needs_nobody_else(desk):
    assert desk.page.locator("article h1").count() >= 1
    assert desk.foreign == []
    assert desk.complaints == []
    sizes = sorted((r.sizes()["responseBodySize"], r.url) for r in desk.untouched)
    assert 0 < sum(size for size, _ in sizes) < PAGE_WEIGHT, sizes[-4:]


def test_every_chapter_is_in_the_table_of_contents():
    files = (ROOT / "chapters").rglob("*.ipynb")
    chapters = {path.relative_to(ROOT).with_suffix("").as_posix() for path in files}
    assert chapters == {page for page in PAGES if page.startswith("chapters/")}


def test_root_leads_to_the_first_page(visit):
    seen = visit("index")
    seen.page.wait_for_url(f"**/{PAGES[0]}.html")


TAG = re.compile(r"<[a-zA-Z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")
LINK = re.compile(r"\s(?:href|src)=[\"']([^\"']*)[\"']")
TARGET = re.compile(r"\s(?:id|name)=[\"']([^\"']*)[\"']")


def test_links_resolve(site):
    """Every address inside the site names a file that is there and, after #, an element of it."""
    files = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    origin, links, targets = f"http://here{PREFIX}", [], {}
    for path in files:
        name, tags = path.relative_to(site).as_posix(), TAG.findall(path.read_text("utf-8"))
        links += [(name, unescape(link)) for tag in tags for link in LINK.findall(tag)]
        targets[name] = {unescape(one) for tag in tags for one in TARGET.findall(tag)}
    assert len(links) > 1000
    broken = []
    for name, link in links:
        address, fragment = urldefrag(urljoin(f"{origin}{name}", link))
        assert address.startswith(origin) or not address.startswith("http://here"), (
            f"{name}: {link} leaves the sub-path {PREFIX}"
        )
        if address.startswith(origin):
            target = unquote(address.removeprefix(origin).split("?")[0]) or "index.html"
            lost = fragment and unquote(fragment) not in targets.get(target, {unquote(fragment)})
            if lost or not (site / target).exists():
                broken.append(f"{name}: {link}")
    assert broken == []


def test_every_picture_says_what_it_shows(desk):
    assert desk.page.evaluate(MUTE) == []


def test_nothing_sticks_out_on_a_phone(phone):
    page = phone.page
    assert page.evaluate(BEYOND) == []
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(OVERLAPPING) == []
    wide = "document.documentElement.scrollWidth <= window.innerWidth"
    assert page.evaluate(wide) and page.viewport_size["width"] == 390


def test_a_result_stays_within_its_experiment_on_a_phone(phone):
    wide = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    assert phone.page.locator(".mlx-output").evaluate_all(wide) == []


def test_readable_without_scripts(plain):
    page = plain.page
    assert page.locator("article h1").first.is_visible()
    assert page.locator("article.bd-article").inner_text().count(" ") > 5
    for i in range(page.locator(".mlx").count()):
        experiment = page.locator(".mlx").nth(i)
        assert experiment.locator("ul.mlx-controls li").count() >= 1, "the settings are not told"
        assert experiment.locator(".mlx-output").inner_text().strip()
        assert experiment.locator("input, select, button").count() == 0, (
            "a control that does nothing"
        )
    for i in range(page.locator(".mlx-predict").count()):
        question = page.locator(".mlx-predict").nth(i)
        assert not question.locator("dd").first.is_visible(), "the answer is given away"
        question.locator("summary").click()
        assert question.locator("dd").first.is_visible()
        question.locator("summary").click()  # as it was, for the next test
    assert page.locator("main :is(span, div).math:not(:has(math))").all_text_contents() == []


def test_the_notebook_that_a_page_offers_is_in_plain_markdown(site):
    text = (site / "_sources/chapters/zero.ipynb").read_text("utf-8")
    assert "(Figure 9.2)" in text and "{fig}`" not in text


def test_blocked_webassembly_leaves_the_stored_result_and_says_so(visit):
    seen = visit("book/index", script=BLOCK_WASM)
    page = seen.page
    root = page.locator(".mlx").first
    assert "Python cannot run" in root.locator(".mlx-status").inner_text()
    assert root.locator("input, select").first.is_enabled()
    assert seen.complaints == []


def test_predict_first_takes_a_guess_then_unfolds(visit):
    page = visit("chapters/compute").page
    question = page.locator(".mlx-predict").first
    assert not question.locator("dd").first.is_visible()
    question.locator("input").fill("many")
    question.locator("button").click()
    assert "Type a number" in question.locator("[role=status]").inner_text()
    assert not question.locator("dd").first.is_visible()
    question.locator("input").fill("1e3")
    question.locator("input").press("Enter")
    assert "You said 1,000" in question.locator("[role=status]").inner_text()
    assert question.locator("dd").first.is_visible()


def test_a_guess_at_a_count_is_told_by_how_many(visit):
    page = visit("chapters/data_parallel").page
    question = page.locator(".mlx-predict[data-predict*='\"measured\": 2,']")
    question.locator("input").fill("3")
    question.locator("input").press("Enter")
    assert question.locator("[role=status]").inner_text() == "You said 3: 1 too high."


def test_few_tab_stops_to_the_text(visit):
    """The first stop skips the navigation; what is left before the text is the page's own tool
    bar.
    """
    page = visit("book/index").page
    page.keyboard.press("Tab")
    assert "Skip" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    inside = []
    for _ in range(10):
        page.keyboard.press("Tab")
        inside.append(page.evaluate("document.activeElement.closest('article') !== null"))
    assert any(inside), "ten stops, and still not in the text"


def test_no_dead_link_without_an_address(site):
    """Without the repository's address nothing points to Binder, Colab, or an edit or issue
    page.
    """
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert not re.search(r"mybinder\.org|colab\.research|/issues/new|/edit/", text), path


def test_names_of_runtime_files_follow_what_goes_into_them(site, monkeypatch):
    now = livebook.live_folder(ROOT)
    for kind in ("live", "pyodide", "answers"):
        (folder,) = (site / "_static").glob(f"{kind}-*")
        assert re.fullmatch(rf"{kind}-[0-9a-f]{{10}}", folder.name)
        assert all(path.suffix in {".mjs", ".packed", ".json"} for path in folder.iterdir())
        assert folder.name == now or kind != "live"
    changes = ((livebook, "own_scripts", lambda _: {}), (ahead, "library_zip", lambda *_: b""))
    for change in changes:
        with monkeypatch.context() as patch:
            patch.setattr(*change)
            assert livebook.live_folder(ROOT) != now
    shelves = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    assert folder.name == f"answers-{ahead.digest(*shelves.values())}"
    assert ahead.digest(b"a", b"b") != ahead.digest(b"ab", b"")
    assert Path(site / "_static/katex/katex.min.css").exists()


def test_contents_follow_a_jump(visit):
    """What the contents mark is the section that is read, also where no heading was passed on the
    way, forward or back.
    """
    page = visit("chapters/data_parallel", viewport={"width": 1280, "height": 900}).page
    ids = page.evaluate(
        "[...document.querySelectorAll('#pst-page-toc-nav a')].map((e) => e.hash.slice(1))"
    )
    marked = page.locator("#pst-page-toc-nav a.active[aria-current=true]")
    for wanted in (ids[8], ids[12], ids[3]):
        page.evaluate(
            "(id) => scrollTo(0, scrollY + document.getElementById(id)"
            ".getBoundingClientRect().top + 200)",
            wanted,
        )
        expect(marked).to_have_count(1)
        expect(marked).to_have_attribute("href", f"#{wanted}")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(marked).to_have_attribute("href", f"#{ids[-1]}")
    page.evaluate("scrollTo(0, 0)")
    expect(marked).to_have_count(0)
