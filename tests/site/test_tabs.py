"""A tab is used again for the next page, which knows nothing of what was done before."""

from pages import PHONE

NAME = "book/how-to-run"
LEAVE = """async () => {
    localStorage.setItem('left', 'something');
    document.cookie = 'left=something';
    console.error('left');
    await fetch('http://somebody.invalid/').catch(() => 0);
}"""
FOUND = """() => [localStorage.getItem('left'), document.cookie, innerWidth,
    matchMedia('(prefers-color-scheme: dark)').matches, document.styleSheets.length > 0]"""


def test_what_was_done_in_a_tab_is_told_once_and_then_forgotten(tabs, origin):
    with tabs.opened(origin, NAME, viewport=PHONE, color_scheme="dark") as first:
        first.page.evaluate(LEAVE)
        assert first.page.evaluate(FOUND) == ["something", "left=something", 390, True, True]
        first.page.context.route("**/*.css", lambda route: route.abort())
        first.page.context.set_offline(True)
    assert first.foreign == ["http://somebody.invalid/"]
    assert "console: left" in first.complaints
    assert "failed: http://somebody.invalid/" in first.complaints
    with tabs.opened(origin, NAME) as second:
        assert second.page is first.page
        assert second.page.evaluate(FOUND) == [None, "", 1280, False, True]
        assert second.foreign == second.complaints == []
        assert second.finished and second.weight() == first.weight()
