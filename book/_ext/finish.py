"""The last step of a build: whatever theme and extensions wrote, the pages end up strict and light.

Strict: no inline script and no inline handler, so that a content security policy can forbid both.
Light: no script, style sheet or font that a page does not need. Mended: what a screen reader
stumbles over. Pages of an earlier build pass through unchanged.
"""

import re
import shutil
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path, PurePosixPath

import stylesheet
from ahead import digest
from sphinx.application import Sphinx

from mathlib.show.unbroken import unbroken

SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>\n?", re.DOTALL)
SOURCE = re.compile(r'\ssrc="([^"]*)"')
HANDLER = re.compile(r'(<[a-zA-Z][^<>]*?)\son([a-z]+)="([^"]*)"')
SHEET = re.compile(r'[ \t]*<link\b[^>]*\bhref="([^"?]*_static/([^"?]+)\.css)[^"]*"[^>]*>\n?')
CLASS = re.compile(r'class="[^"]*"')
NAMED = re.compile(r'\b(?:class|id)="([^"]*)"')
ID = re.compile(r'(<[a-zA-Z][^<>]*?)\sid="([^"]+)"')
SECTION = re.compile(r'(<section\b[^<>]*?)aria-label="([^"]*)"')
VIEWPORT = re.compile(r'\s*<meta name="viewport"[^>]*>')
PAGE_NAME = re.compile(r"DOCUMENTATION_OPTIONS\.pagename = '([^']*)';")
PAGE_NAME_SCRIPT = "DOCUMENTATION_OPTIONS.pagename = document.documentElement.dataset.pagename;"
HOLDS_TABLE = '<div class="output text_html mlx-holds-table"><table'
HOLDS_VERDICT = re.compile(
    r'(<div class="cell)( [^"]*">\s*<div class="cell_output[^"]*">\s*'
    r'<div class="output text_html">\s*<section class="mlx-verdict)'
)
CELL = re.compile(r"<td>(?:(?!</td>).)*</td>", re.DOTALL)
NAME = re.compile(r'(?<=<span class="pre">)[\w./]+(?=</span>)')
CODE = re.compile(r'(?<=<div class="highlight"><pre>).*?(?=</pre>)', re.DOTALL)
TOKEN = re.compile(r'<span class="?([a-z][a-z0-9]{0,2})"?>([^<]*)</span>')
FACE = re.compile(r'<svg xmlns="[^"]*"( class="mlx-chart[^>]*?) font-family="[^"]*"')
EXPERIMENT = re.compile(r'(<section class="mlx" .*?</section>)', re.DOTALL)
CODE_SHEET = Path(__file__).parent.parent / "_static/code.css"
COLOURED = set(re.findall(r"\.([a-z][a-z0-9]?)(?=[,)])", CODE_SHEET.read_text("utf-8")))
MENU = re.compile(
    r'<div class="(dropdown [^"]*)">\s*<button class="([^"]*)" type="button" '
    r'data-bs-toggle="dropdown" aria-expanded="false" (aria-label="[^"]*")>(.*?)</button>'
    r'(\s*<ul class="dropdown-menu">.*?</ul>)\s*</div>',
    re.DOTALL,
)
MENU_THAT_UNFOLDS = r'<details class="\1"><summary class="\2" \3>\4</summary>\5</details>'
TOOLTIP = re.compile(r'\s+data-bs-(?:toggle="tooltip"|placement="[^"]*")')
EARLY = re.compile(r'<link rel="preload" as="script"[^>]*/bootstrap\.js[^>]*>\n?')
FIRST = "dataset.theme"  # the script that must run before anything is painted

# A script whose file or text has the word is needed only where the page has the second.
NEEDED = {
    "fontawesome": r"(?!)",  # never: icons.css draws the icons
    "bootstrap": r"(?!)",  # never: menus unfold and titles show by themselves
    "thebe": r"(?!)",
    "toggle": r'class="[^"]*\b(?:toggle|dropdown)\b[^"]*\badmonition\b|class="toggle\b',
    "design-tabs": r'class="[^"]*\bsd-tab-',
    "clipboard": r'class="highlight\b',
    "copybutton": r'class="highlight\b',
    # never: the book has a search of its own
    "searchtools": r"(?!)",
    "language_data": r"(?!)",
    "searchindex": r"(?!)",
    "sphinx_highlight": r"(?!)",
}
NOT_SHIPPED = (
    *("**/*.map", "locales", "vendor/fontawesome"),
    *("scripts/fontawesome.js*", "scripts/bootstrap.js*"),
)

REDIRECT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={start}">
<title>{title}</title>
<link rel="icon" href="_static/favicon.svg">
</head>
<body><main><h1>{title}</h1><p>The book begins <a href="{start}">here</a>.</p></main></body>
</html>
"""
LOST = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Not found – {title}</title>
<link rel="icon" href="{home}_static/favicon.svg">
<style>
a {{ color: inherit }}
body {{ max-width: 40rem; margin: 3rem auto; padding: 0 1rem; font-family: sans-serif }}
</style>
</head>
<body><main><h1>There is no such page</h1>
<p>It may have moved. Start at <a href="{home}{start}">{title}</a>,
or <a href="{home}search.html">search the book</a>.</p></main></body>
</html>
"""


class Site:
    """The folder of the pages, and the files that pages share."""

    def __init__(self, folder: Path):
        self.folder, self.static = folder, folder / "_static"

    def shared(self, name: str, content: str, ending: str) -> str:
        """A file in _static, named after its content; its address seen from the site's root."""
        place = PurePosixPath("_static") / f"{name}-{digest(content.encode())}{ending}"
        (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / place).write_text(content, "utf-8")
        return str(place)

    def root(self, page: Path) -> str:
        """The way from a page to the site's root."""
        return "../" * (len(page.relative_to(self.folder).parts) - 1)


def without_inline_scripts(text: str, page: Path, site: Site) -> str:
    """Every script in a file of its own, at the end of the page, and only where it is needed.

    One stays where it is, for it must run before anything is painted: it sets light or dark.
    """
    if name := PAGE_NAME.search(text):
        text = text.replace("<html ", f'<html data-pagename="{name[1]}" ', 1)
        text = PAGE_NAME.sub(PAGE_NAME_SCRIPT, text)
    seen: set[str] = set()
    moved: list[str] = []
    classes = "\n".join(sorted(set(CLASS.findall(text))))

    def outside(match: re.Match) -> str:
        attributes, inside = match[1], match[2].strip()
        source = SOURCE.search(attributes)
        told = source[1] if source else inside
        if told in seen or not is_needed(told, classes):
            return ""
        seen.add(told)
        if not source:
            kind = "inline/first" if FIRST in inside else "inline/script"
            place = site.root(page) + site.shared(kind, inside + "\n", ".js")
            attributes = f' src="{place}"'
        script = f"<script{attributes}></script>\n"
        if re.search(r"\bdefer\b|module|inline/first", attributes):
            return script
        moved.append(script)
        return ""

    text = SCRIPT.sub(outside, text)
    return text.replace("</body>", "".join(moved) + "</body>", 1)


def is_needed(script: str, classes: str) -> bool:
    """Whether the page has what the script, named by its address or its text, works on."""
    return all(re.search(wanted, classes) for word, wanted in NEEDED.items() if word in script)


def without_handlers(text: str, page: Path, site: Site) -> str:
    """onclick="..." becomes a listener in a file."""
    found: dict[str, str] = {}

    def named(match: re.Match) -> str:
        event, code = match[2], unescape(match[3])
        key = digest(code.encode())
        found[key] = (
            f"for (const one of document.querySelectorAll('[data-on-{event}=\"{key}\"]'))\n"
            f"  one.addEventListener('{event}', function (event) {{ {code} }});\n"
        )
        return f'{match[1]} data-on-{event}="{key}"'

    while HANDLER.search(text):
        text = HANDLER.sub(named, text)
    if not found:
        return text
    place = site.shared("inline/handlers", "".join(found[key] for key in sorted(found)), ".js")
    script = f'<script defer src="{site.root(page)}{place}"></script>\n'
    return text.replace("</head>", f"{script}</head>", 1)


def with_each_id_once(text: str, page: Path, site: Site) -> str:
    """An id that comes again is dropped: whatever points to it finds the first one anyway."""
    seen: set[str] = set()

    def once(match: re.Match) -> str:
        if match[2] in seen:
            return match[1]
        seen.add(match[2])
        return match[0]

    return ID.sub(once, text)


def with_one_viewport(text: str, page: Path, site: Site) -> str:
    first = VIEWPORT.search(text)
    if not first:
        return text
    rest = VIEWPORT.sub("", text[first.end() :])
    return text[: first.end()] + rest


def with_landmarks_apart(text: str, page: Path, site: Site) -> str:
    """The side bar is a landmark, and no two landmarks of a page have one name."""
    side_bar = '<div id="pst-primary-sidebar" class'
    named = '<div id="pst-primary-sidebar" role="complementary" aria-label="This book" class'
    seen: dict[str, int] = {}

    def numbered(match: re.Match) -> str:
        name = match[2]
        seen[name] = seen.get(name, 0) + 1
        return match[0] if seen[name] == 1 else f'{match[1]}aria-label="{name}, {seen[name]}"'

    return SECTION.sub(numbered, text.replace(side_bar, named))


def with_a_plain_bibliography(text: str, page: Path, site: Site) -> str:
    """A citation is no list item any more (DPUB-ARIA 1.1): its list would be a list of nothing."""
    return text.replace('<div role="list" class="citation-list">', '<div class="citation-list">')


def with_names_that_break_well(text: str, page: Path, site: Site) -> str:
    """A name of the library in a table breaks behind a point or an underscore, not anywhere."""

    def broken(cell: re.Match) -> str:
        return NAME.sub(lambda name: re.sub(r"(?<=[._/])(?=\w)", "<wbr>", name[0]), cell[0])

    return CELL.sub(broken, text)


def without_bootstrap(text: str, page: Path, site: Site) -> str:
    """80 kB of script for a menu and a few tooltips, which a page has without any."""
    text = MENU.sub(MENU_THAT_UNFOLDS, EARLY.sub("", text))
    return TOOLTIP.sub("", text).replace(' data-bs-title="', ' title="')


def with_what_it_holds(text: str, page: Path, site: Site) -> str:
    """Cells and outputs say what they hold: a style sheet that looks for it with :has() would look
    again at every move of an experiment.
    """
    text = text.replace('<div class="output text_html"><table', HOLDS_TABLE)
    return HOLDS_VERDICT.sub(r"\1 mlx-holds-verdict\2", text)


def with_colours_only(text: str, page: Path, site: Site) -> str:
    """In code, what the style sheet gives no colour needs no element of its own, and a class of
    two letters no quotes: thousands of them stand on a page.
    """

    def kept(token: re.Match) -> str:
        coloured = f"<span class={token[1]}>{token[2]}</span>"
        return coloured if token[1] in COLOURED else token[2]

    return CODE.sub(lambda code: TOKEN.sub(kept, code[0]), text).replace("<span></span>", "")


def with_pictures_at_home(text: str, page: Path, site: Site) -> str:
    """Pictures name their language and a face for homes that know neither; a page knows both.

    Not in an experiment, whose stored result is the bytes of a live one.
    """
    parts = EXPERIMENT.split(text)
    parts[::2] = [FACE.sub(r"<svg\1", part) for part in parts[::2]]
    return "".join(parts)


def with_units_held(text: str, page: Path, site: Site) -> str:
    """No line ends between a number and its unit, in prose, tables, captions and results."""
    return unbroken(text)


MENDING: tuple[Callable[[str, Path, Site], str], ...] = (
    with_one_viewport,
    with_each_id_once,
    with_landmarks_apart,
    with_a_plain_bibliography,
    without_bootstrap,
    with_what_it_holds,
    with_names_that_break_well,
    with_colours_only,
    with_pictures_at_home,
    with_units_held,
    without_inline_scripts,
    without_handlers,
)


def with_one_style_sheet(
    pages: dict[Path, str], site: Site, own: set[str], words: set[str]
) -> None:
    """What theme and extensions bring becomes one file; the book's own sheets stay as they are."""

    def foreign(text: str) -> list[re.Match]:
        return [link for link in SHEET.finditer(text) if f"{link[2]}.css" not in own]

    lists = [
        [f"{link[2]}.css" for link in foreign(text) if not link[2].startswith("book-")]
        for text in pages.values()
    ]
    files = max(lists, key=len, default=[])
    if not files:
        return  # every page is of an earlier build
    for old in site.static.glob("book-*.css"):
        old.unlink()
    css = stylesheet.gathered([site.static / file for file in files], site.static, words)
    place = site.shared("book", css, ".css")
    for page, text in pages.items():
        links = foreign(text)
        if links:
            line = f'    <link rel="stylesheet" href="{site.root(page)}{place}" />\n'
            rest = text[links[0].end() :]
            for link in links[1:]:
                rest = rest.replace(link[0], "", 1)
            pages[page] = text[: links[0].start()] + line + rest


def used_words(pages: dict[Path, str], app: Sphinx, static: Path) -> set[str]:
    """Classes and ids of the pages, and every word of what may add some: scripts, experiments; the
    variables that pages and the book's own style sheets ask for.
    """
    words = {w for text in pages.values() for names in NAMED.findall(text) for w in names.split()}
    asking = [sheet.read_text("utf-8") for sheet in Path(app.confdir).glob("book/_static/*.css")]
    words.update(w for text in [*pages.values(), *asking] for w in stylesheet.ASKED.findall(text))
    root = Path(app.confdir)
    sources = [
        *static.rglob("*.js"),
        *root.glob("book/live/*.mjs"),
        *root.glob("mathlib/show/*.py"),
        *root.glob("mathlib/explore/*.py"),
    ]
    for source in sources:
        words.update(re.findall(r"[\w-]+", source.read_text("utf-8")))
    return words


def add_what_servers_ask_for(app: Sphinx, folder: Path) -> None:
    """The root's redirect, the page for what is not there, and the icon old browsers look for."""
    start = f"{app.config.root_doc}.html"
    title = escape(app.config.html_title or app.config.project)
    (folder / "index.html").write_text(REDIRECT.format(start=start, title=title), "utf-8")
    home = app.config.html_baseurl or ""
    (folder / "404.html").write_text(LOST.format(home=home, start=start, title=title), "utf-8")
    shutil.copyfile(Path(app.confdir) / "book/_static/favicon.ico", folder / "favicon.ico")


def finish(app: Sphinx, failure: Exception | None) -> None:
    if failure or app.builder.format != "html":
        return
    site = Site(Path(app.outdir))
    for pattern in NOT_SHIPPED:
        for path in sorted(site.static.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    add_what_servers_ask_for(app, site.folder)
    before = {
        page: page.read_text("utf-8")
        for page in sorted(site.folder.rglob("*.html"))
        if site.static not in page.parents
    }
    after = dict(before)
    for page in after:
        for mend in MENDING:
            after[page] = mend(after[page], page, site)
    own = {path.name for path in (Path(app.confdir) / "book/_static").glob("*.css")}
    with_one_style_sheet(after, site, own, used_words(after, app, site.static))
    for page, text in after.items():
        if text != before[page]:
            page.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
