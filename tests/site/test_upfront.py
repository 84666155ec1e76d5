"""The first screen: what one will know; words and symbols that say what they mean."""

SHOWN = "(e) => getComputedStyle(e, '::after').content"


def test_a_chapter_begins_with_what_it_ends_with(look):
    page = look("chapters/memory").page
    texts = "(all) => all.map((e) => e.textContent)"
    first = page.locator(".mlx-short > ul > li").evaluate_all(texts)
    last = page.locator("#what-to-remember > ul > li").evaluate_all(texts)
    assert 3 <= len(first) <= 6 and first == last
    assert page.locator(".mlx-short > summary > svg").is_visible(), "the chapter's drawing"


def test_a_word_shows_its_definition_on_hover_and_focus(visit):
    page = visit("chapters/memory").page
    link = page.locator("a:has(> .mlx-tip)", has_text="out of memory").first
    tip = link.locator(".mlx-tip")
    assert tip.evaluate(SHOWN) == "none"
    link.hover()
    assert "needs more bytes at its peak" in tip.evaluate(SHOWN)
    page.mouse.move(0, 0)
    assert tip.evaluate(SHOWN) == "none"
    page.keyboard.press("Tab")  # so that the focus is a keyboard's
    link.focus()
    assert "needs more bytes at its peak" in tip.evaluate(SHOWN)


def test_symbols_and_words_show_their_meaning_when_tapped(visit):
    page = visit("chapters/pipeline", viewport={"width": 320, "height": 640}, has_touch=True).page
    symbol = page.locator(".mlx-tip[tabindex='-1']:visible").first
    symbol.tap()
    assert "stages of the pipeline" in symbol.evaluate(SHOWN)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    links = page.locator("a:has(> .mlx-tip):visible")
    links.nth(1).tap()
    links.nth(0).tap()
    assert "Tap again" in links.nth(0).locator(".mlx-tip").evaluate(SHOWN)
    assert page.url.endswith("pipeline.html") and page.locator(".mlx-told").count() == 1
    links.nth(0).tap()
    page.wait_for_url("**/glossary.html#*")
