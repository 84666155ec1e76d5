"""The built site, served below a sub-path, in a real browser that cannot reach anything else."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from browser import flags, installed
from pages import PREFIX, SITE, broken
from playwright.sync_api import Browser, Page, Request, Route, sync_playwright
from serve import served


@dataclass
class Visit:
    """A page opened in the browser, and what it did."""

    page: Page
    origin: str
    foreign: list[str] = field(default_factory=list)  # requests to anybody else; they were refused
    complaints: list[str] = field(
        default_factory=list
    )  # console errors, uncaught errors, failed requests
    finished: list[Request] = field(default_factory=list)

    def goto(self, name: str) -> "Visit":
        self.page.goto(f"{self.origin}{name}.html", wait_until="networkidle")
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
def chromium() -> Iterator[Browser]:
    path = installed()
    assert path, "no browser; run `python tools/browser.py`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags())
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser, origin: str) -> Iterator[Callable[..., Visit]]:
    """`visit("chapters/01_compute", viewport=..., java_script_enabled=...)` opens a page in a fresh
    profile.
    """
    contexts = []

    def open_page(name: str, **options: object) -> Visit:
        context = chromium.new_context(**options)
        contexts.append(context)
        seen = Visit(context.new_page(), origin)

        def guard(route: Route, request: Request) -> None:
            if request.url.startswith((origin, "data:", "blob:")):
                return route.continue_()
            seen.foreign.append(request.url)
            return route.abort()

        context.route("**/*", guard)
        context.on("requestfinished", lambda request: seen.finished.append(request))
        context.on(
            "requestfailed",
            lambda request: broken(request) and seen.complaints.append(f"failed: {request.url}"),
        )
        context.on(
            "response",
            lambda r: seen.complaints.append(f"{r.status}: {r.url}") if r.status >= 400 else None,
        )
        context.on(
            "console",
            lambda m: seen.complaints.append(f"console: {m.text}") if m.type == "error" else None,
        )
        context.on("weberror", lambda e: seen.complaints.append(f"uncaught: {e.error}"))
        return seen.goto(name)

    yield open_page
    for context in contexts:
        context.close()
