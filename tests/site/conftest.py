"""The built site, served below a sub-path, in a real browser that cannot reach anything else.

`visit` opens a page in an empty profile: for tests that touch it. Tests that only look share pages.
A new tab costs more than a page, so tabs are used again, emptied of all that was done in them.
Every page of the book in turn is opened once, under the strict policy that book/how-to-publish.md
recommends, word for word: `desk`, `paper`, `phone`, `narrow` and `alive` are
that page as the last test left it, in this order, and `plain` is it without scripts; `look` keeps
the last few that were asked for. With --dist=loadgroup one worker has all tests of a page, and else
all of a file.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from browser import flags, installed
from pages import DESK, PAPER, PHONE, PREFIX, SITE, broken, policy, quiet, toc_pages
from playwright.sync_api import Browser, Page, Request, Route, sync_playwright
from serve import served

EACH_PAGE = {"page_once", "plain", "name"}  # parameters that are one of the book's pages
IN_TURN = ("desk", "paper", "phone", "narrow", "alive")  # each leaves the page to the next
COLLECT = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (e) => window.violations.push(
    `${e.violatedDirective}: ${e.blockedURI} ${e.sourceFile}:${e.lineNumber} ${e.sample}`));
"""
QUICK = "--js-flags=--wasm-tiering-budget=1000000000"  # Python starts faster and is optimized later
KEPT = 3  # shared pages open at once
LOOK = {"viewport", "color_scheme"}  # of a page's options, those that a tab can change


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Tests of one page go to one worker, so that it opens the page once; files come before, as
    they take longer.
    """
    turns: dict[pytest.Item, tuple[str, int]] = {}
    for item in [one for one in items if one.path.parent == Path(__file__).parent]:
        given = getattr(getattr(item, "callspec", None), "params", {})
        pages = [given[name] for name in EACH_PAGE & set(given)]
        item.add_marker(pytest.mark.xdist_group(pages[0] if pages else item.path.stem))
        if {"page_once", "plain"} & set(given):
            turn = [i for i, name in enumerate(IN_TURN) if name in item.fixturenames]
            turns[item] = (pages[0], *turn)
    yield
    items.sort(key=lambda item: turns.get(item, ()))


@dataclass
class Visit:
    """A page opened in the browser, and what it did."""

    page: Page
    origin: str
    name: str = ""
    foreign: list[str] = field(default_factory=list)  # requests to anybody else; they were refused
    complaints: list[str] = field(
        default_factory=list
    )  # console errors, uncaught errors, failed requests
    finished: list[Request] = field(default_factory=list)
    untouched: tuple[Request, ...] = ()  # what was asked for before anybody did anything

    def goto(self, name: str, query: str = "") -> "Visit":
        self.page.goto(f"{self.origin}{name}.html{query}")
        quiet(self.page)
        self.name, self.untouched = name, tuple(self.finished)
        return self

    def seen(self, size: dict[str, int], media: str = "screen", scheme: str = "light") -> "Visit":
        """The same in another window, or on paper."""
        self.page.emulate_media(media=media, color_scheme=scheme)
        if self.page.viewport_size != size:
            self.page.set_viewport_size(size)
        return self

    def weight(self) -> int:
        """Bytes received so far, as they crossed the wire."""
        return sum(request.sizes()["responseBodySize"] for request in self.finished)


@pytest.fixture(scope="session")
def site() -> Path:
    assert (SITE / "index.html").exists(), "the site is not built; run `make html`"
    return SITE


@pytest.fixture(scope="session")
def origin(site: Path) -> Iterator[str]:
    with served(site, PREFIX) as address:
        yield address


@pytest.fixture(scope="session")
def strict(site: Path) -> Iterator[str]:
    """The same under the policy; there a test waits for functions, as it forbids other strings."""
    with served(site, PREFIX, policy=policy()) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = installed()
    assert path, "no browser; run `python tools/browser.py`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*flags(), QUICK])
        yield browser
        browser.close()


@dataclass
class Tab:
    """A tab of the browser: of one visit after another, that know nothing of each other."""

    page: Page
    seen: Visit | None = None

    def visit(self, origin: str, name: str, query: str = "", **look: object) -> Visit:
        """A page, in a window of this `viewport` and with this `color_scheme`."""
        self.seen = Visit(self.page, origin)
        size = look.get("viewport", {"width": 1280, "height": 720})
        return self.seen.seen(size, "null", look.get("color_scheme", "light")).goto(name, query)

    def listen(self) -> None:
        """Note what is asked for and complained about; whoever is foreign is not asked."""
        context = self.page.context

        def complain(text: str) -> None:
            self.seen.complaints.append(text)

        context.on("requestfinished", lambda request: self.seen.finished.append(request))
        context.on("requestfailed", lambda r: broken(r) and complain(f"failed: {r.url}"))
        context.on("response", lambda r: r.status >= 400 and complain(f"{r.status}: {r.url}"))
        context.on("console", lambda m: m.type == "error" and complain(f"console: {m.text}"))
        context.on("weberror", lambda e: complain(f"uncaught: {e.error}"))
        context.route("**/*", self.guard)

    def guard(self, route: Route, request: Request) -> None:
        if request.url.startswith((self.seen.origin, "data:", "blob:")):
            return route.continue_()
        self.seen.foreign.append(request.url)
        return route.abort()

    def empty(self) -> None:
        """Leave the page and forget it."""
        context = self.page.context
        self.page.goto("about:blank")
        context.set_offline(False)
        context.unroute_all(behavior="ignoreErrors")
        context.route("**/*", self.guard)
        session = context.new_cdp_session(self.page)
        session.send("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
        session.detach()
        self.page.mouse.move(0, 0)


@dataclass
class Tabs:
    """Those that are open and free, by how they were opened."""

    browser: Browser
    free: dict[str, list[Tab]] = field(default_factory=dict)

    @contextmanager
    def lent(self, script: str = "", **options: object) -> Iterator[Tab]:
        """One for a while; `script` runs before a page's own."""
        free = self.free.setdefault(json.dumps([script, options], sort_keys=True), [])
        if not free:
            context = self.browser.new_context(**options)
            context.add_init_script(COLLECT + script)
            free.append(Tab(context.new_page()))
            free[0].listen()
        tab = free.pop()
        yield tab
        tab.empty()
        free.append(tab)

    @contextmanager
    def opened(self, origin: str, name: str, query: str = "", **options: object) -> Iterator[Visit]:
        look = {key: options.pop(key) for key in LOOK & set(options)}
        with self.lent(**options) as tab:
            yield tab.visit(origin, name, query, **look)


@pytest.fixture(scope="session")
def tabs(chromium: Browser) -> Tabs:
    return Tabs(chromium)


@pytest.fixture
def visit(tabs: Tabs, origin: str) -> Iterator[Callable[..., Visit]]:
    """`visit("chapters/compute", viewport=..., java_script_enabled=...)` opens a page in an empty
    profile.
    """
    with ExitStack() as pages:
        yield lambda name, at=origin, **options: pages.enter_context(
            tabs.opened(at, name, **options)
        )


@pytest.fixture(scope="module")
def stay(tabs: Tabs, strict: str) -> Iterator[Callable[..., Visit]]:
    """Like `visit` under the policy, for a file whose tests go on where the last one ended."""
    with ExitStack() as pages:
        yield lambda name, **options: pages.enter_context(tabs.opened(strict, name, **options))


def each_page(**options: object) -> Callable[..., Iterator[Visit]]:
    """A fixture: every page of the book, opened once."""

    @pytest.fixture(scope="session", params=toc_pages())
    def page(request: pytest.FixtureRequest, tabs: Tabs, strict: str) -> Iterator[Visit]:
        with tabs.opened(strict, request.param, viewport=DESK, **options) as seen:
            yield seen

    return page


def window(size: dict[str, int], *how: str) -> Callable[[Visit], Visit]:
    """A fixture: the page that is open, in a window of that size."""

    @pytest.fixture
    def page(page_once: Visit) -> Visit:
        return page_once.seen(size, *how)

    return page


page_once = each_page()
plain = each_page(java_script_enabled=False)
desk = alive = window(DESK)
phone = narrow = window(PHONE)
paper = window(PAPER, "print", "dark")


@pytest.fixture(scope="session")
def look(tabs: Tabs, origin: str) -> Iterator[Callable[..., Visit]]:
    """Like `visit`, for tests that leave a page as it is: the same one for all that ask alike."""
    kept: dict[str, tuple[Visit, ExitStack]] = {}

    def shared(name: str, **options: object) -> Visit:
        key = json.dumps([name, options], sort_keys=True)
        if key not in kept:
            if len(kept) == KEPT:
                kept.pop(next(iter(kept)))[1].close()
            closing = ExitStack()
            seen = closing.enter_context(tabs.opened(origin, name, **options))
            kept[key] = seen, closing
        return kept[key][0]

    yield shared
    for _, closing in kept.values():
        closing.close()
