"""Where a section is: {at}`compute, One product` links to it, and a name that is none stops
the build.

Glossary entries name the section that introduces the word. Letters of the notation page are led to
the table of the first chapter that uses them, without being named.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

import contents
from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

LETTER = ("letter", "symbol")  # how a chapter's table of the letters that it uses begins


class At(nodes.Inline, nodes.TextElement):
    """A place by its name, until all pages are read."""


def at(
    name: str, rawtext: str, text: str, lineno: int, inliner: Inliner, *_: object
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """{at}`compute, One product`"""
    page, _, section = text.partition(", ")
    return [At(rawtext, "", page=f"chapters/{page}", section=section)], []


def chapters(env: BuildEnvironment) -> list[str]:
    root = Path(env.srcdir)
    return [contents.page(root, chapter) for chapter in contents.notebooks(root)]


def sections(env: BuildEnvironment, page: str) -> dict[str, str]:
    """Anchor of each section of a page, by its title."""
    links = env.tocs[page].findall(nodes.reference) if page in env.tocs else []
    return {link.astext(): link["anchorname"] for link in links}


def find(env: BuildEnvironment, page: str, section: str) -> str:
    """The anchor of a section, "#one-product"; refused where there is none."""
    known = sections(env, page)
    if section not in known:
        near = get_close_matches(section, known, n=2, cutoff=0.3)
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ExtensionError(f"at: {page} has no section {section!r}{meant}")
    return known[section]


def subject(env: BuildEnvironment, page: str) -> str:
    """The first word of a chapter's title: Compute."""
    return env.titles[page].astext().partition(":")[0]


def link(app: Sphinx, here: str, page: str, section: str, words: str) -> nodes.Node:
    address = app.builder.get_relative_uri(here, page) + find(app.env, page, section)
    made = nodes.reference("", words, refuri=address, internal=True)
    return nodes.inline("", "", made, classes=["mlx-at"])


def letters(env: BuildEnvironment) -> dict[str, tuple[str, str]]:
    """The first chapter in whose table of letters each of them stands, and the table's section."""
    found: dict[str, tuple[str, str]] = {}
    for page in (page for page in chapters(env) if "/trials/" not in page):
        for letter, section in _letters_of(env.get_doctree(page)):
            found.setdefault(letter, (page, section))
    return found


def title_of(section: nodes.Node) -> str:
    """The heading of a section; empty for what only looks like one, such as an exercise."""
    if not isinstance(section, nodes.section):
        return ""
    return next((child.astext() for child in section if isinstance(child, nodes.title)), "")


def _letters_of(doctree: nodes.document) -> Iterator[tuple[str, str]]:
    """Each letter of a table that begins with the word, and the section that it stands in."""
    for table in doctree.findall(nodes.table):
        rows = list(table.findall(nodes.row))
        if rows[0][0].astext() not in LETTER:
            continue
        section: nodes.Node = table
        while not isinstance(section, nodes.section):
            section = section.parent
        for row in rows:
            for one in row[0].findall(nodes.math):
                yield one.astext(), title_of(section)


def lead(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Turn the names into links."""
    for place in list(doctree.findall(At)):
        where, section = place["page"], place["section"]
        place.replace_self(link(app, page, where, section, section))
    if page == "book/notation":
        known = letters(app.env)
        for row in list(doctree.findall(nodes.row)):
            found = (known[m.astext()] for m in row[0].findall(nodes.math) if m.astext() in known)
            first, section = next(found, ("", ""))
            if first and len(row) == 3:
                made = link(app, page, first, section, subject(app.env, first))
                row[1][-1].extend([nodes.Text(" "), made])


def setup(app: Sphinx) -> dict:
    app.add_node(At)
    app.add_role("at", at)
    app.connect("doctree-resolved", lead)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
