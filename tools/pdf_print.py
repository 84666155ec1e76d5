"""Print pages of the built site with a browser, and what is known of them afterwards."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urljoin

from browser import flags, installed
from playwright.sync_api import Page, sync_playwright
from pypdf import PdfReader

LINK = re.compile(r'href="([^"#:]*)#([^"]+)"')
STYLE = (Path(__file__).parent / "pdf.css").read_text("utf-8")
READY = """async (wanted) => {
    document.documentElement.dataset.theme = 'light';
    const article = document.querySelector('article.bd-article');
    const solutions = [...article.querySelectorAll('details.solution')];
    for (const folded of article.querySelectorAll('details')) folded.open = true;
    if (solutions.length) {  // to the end, behind a heading that can be pointed at
        const end = document.createElement('section');
        end.id = 'solutions';
        end.innerHTML = '<h2>Solutions</h2>';
        end.append(...solutions);
        article.querySelector('section').append(end);
    }
    const links = document.createElement('nav');  // a browser notes the place of what is linked to
    links.hidden = true;
    for (const id of ['solutions', ...wanted]) {
        const link = document.createElement('a');
        link.href = '#' + encodeURIComponent(id);
        links.append(link);
    }
    document.body.append(links);
    await document.fonts.ready;
    return [...article.querySelectorAll('section[id] > h2')]
        .map((h) => [h.parentElement.id, h.innerText.replace(/#$/, '').trim()]);
}"""


@dataclass
class Printed:
    """A page of the site on paper."""

    name: str  # as the table of contents has it
    title: str
    reader: PdfReader
    sections: list[tuple[str, str]] = field(default_factory=list)  # id, heading

    @cached_property
    def places(self) -> dict[str, tuple[int, float]]:
        """Id: on which of its pages it stands, and how high."""
        known = self.reader.named_destinations.items()
        page_of = self.reader.get_destination_page_number
        return {name.removeprefix("/"): (page_of(to), float(to.top)) for name, to in known}

    def __len__(self) -> int:
        return len(self.reader.pages)


class Press:
    """A browser that prints; `origin` is where the site is served."""

    def __init__(self, page: Page, origin: str, site: Path):
        self.page, self.origin = page, origin
        self.wanted = targets(site)

    def print(self, name: str) -> Printed:
        """A page of the site."""
        self.page.goto(f"{self.origin}{name}.html")
        self.page.add_style_tag(content=STYLE)
        sections = self.page.evaluate(READY, sorted(self.wanted.get(name, set())))
        title = self.page.locator("article h1").first.inner_text().removesuffix("#").strip()
        return Printed(name, title, self._paper(), [tuple(one) for one in sections])

    def own(self, name: str, title: str, html: str) -> Printed:
        """A page of our own, in the site's faces."""
        self.page.goto(f"{self.origin}404.html")
        self.page.set_content(html, wait_until="load")
        self.page.evaluate("() => document.fonts.ready.then(() => 0)")
        return Printed(name, title, self._paper())

    def _paper(self) -> PdfReader:
        told = self.page.pdf(format="A4", print_background=True, prefer_css_page_size=True)
        return PdfReader(BytesIO(told))


@contextmanager
def press(origin: str, site: Path) -> Iterator[Press]:
    """A browser for the time of the block. The site's scripts are not run: paper has no use for
    them.
    """
    path = installed()
    if not path:
        raise SystemExit(
            "no browser: expected Chrome or Chromium; `python tools/browser.py` installs one, or "
            "BROWSER_PATH names one"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags())
        page = browser.new_page(color_scheme="light")
        page.emulate_media(media="print")
        page.route(re.compile(r"\.m?js(\?|$)"), lambda route: route.abort())
        yield Press(page, origin, site)
        browser.close()


def targets(site: Path) -> dict[str, set[str]]:
    """Page: the ids in it to which some page links, and those of its sections."""
    found: dict[str, set[str]] = {}
    for file in [*site.glob("book/*.html"), *site.glob("chapters/**/*.html")]:
        name = file.relative_to(site).with_suffix("").as_posix()
        text = file.read_text("utf-8")
        found.setdefault(name, set()).update(re.findall(r'<section id="([^"]+)"', text))
        for path, id in LINK.findall(text):
            to = str(PurePosixPath(urljoin(f"/{name}.html", path)).with_suffix(""))[1:]
            found.setdefault(to, set()).add(unquote(id))
    return found
