"""Figures get their numbers when the book is built: the second one of chapter 4 is Figure 4.2.

A picture with a caption is numbered, in the order of its chapter's stored outputs. One with a name
can be referred to from any page: {fig}`ring` becomes a link that says "Figure 4.2". A name that no
figure has, or two have, ends the build.
"""

import re
from pathlib import Path

import contents
from docutils import nodes
from docutils.parsers.rst.states import Inliner
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from stored import html_outputs

FIGURE = re.compile(
    r'<figure class="mlx-figure(?: mlx-parts)?"(?: id="fig-([a-z0-9-]+)")?>(.*?)</figure>', re.S
)
CAPTION = "<figcaption>"
Place = tuple[str, str]  # page, number


class FigureLink(nodes.Inline, nodes.Element):
    """Where a reference to a figure will stand."""


def captioned(html: str) -> list[str]:
    """The name, or nothing, of each figure in some HTML that has a caption."""
    found = FIGURE.finditer(html) if CAPTION in html else ()
    return [one[1] or "" for one in found if CAPTION in one[2]]


def names_in(chapter: Path) -> list[str]:
    """The names of a notebook's captioned figures, in reading order."""
    return [name for html in html_outputs(chapter) for name in captioned(html)]


def places(root: Path) -> dict[str, Place]:
    """Page and number of every named figure of the book."""
    found: dict[str, Place] = {}
    for chapter in contents.notebooks(root):
        page = contents.page(root, chapter)
        for number, name in enumerate(names_in(chapter), 1):
            if name in found:
                raise ExtensionError(f"{chapter.name}: a figure named {name!r} exists already")
            if name:
                found[name] = page, f"{before(root, page)}{number}"
    return found


def known_places(app: Sphinx) -> dict[str, Place]:
    """The same, looked for once a build."""
    if not hasattr(app, "figure_places"):
        app.figure_places = places(Path(app.confdir))
    return app.figure_places


def before(root: Path, page: str) -> str:
    """What stands before a figure's own number: "4." in chapter 4, nothing outside chapters."""
    chapter = contents.number(root, page)
    return f"{chapter}." if chapter else ""


def fig(
    role: str, raw: str, text: str, line: int, inliner: Inliner, options: object = None, content=()
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """{fig}`ring`."""
    return [FigureLink(raw, figure=text.strip())], []


def numbered(html: str, chapter: str, count: int) -> tuple[str, int]:
    """The HTML with a number in each caption, and how many figures the page has so far.

    `chapter` is what stands before each number, `count` how many the page had.
    """

    def number(found: re.Match[str]) -> str:
        nonlocal count
        if CAPTION not in found[2]:
            return found[0]
        count += 1
        label = f'<span class="mlx-figure-number">Figure {chapter}{count}.</span> '
        return found[0].replace(CAPTION, CAPTION + label, 1)

    return FIGURE.sub(number, html), count


def resolve(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Numbers into captions, links where references stand."""
    if app.builder.format != "html":
        return
    count, chapter = 0, before(Path(app.confdir), page)
    for raw in list(doctree.findall(nodes.raw)):
        if "html" in raw.get("format", "") and CAPTION in raw.astext():
            html, count = numbered(raw.astext(), chapter, count)
            raw.replace_self(nodes.raw("", html, **raw.attributes))
    links = list(doctree.findall(FigureLink))
    known = known_places(app) if links else {}
    for link in links:
        name = link["figure"]
        if name not in known:
            raise ExtensionError(
                f"{page}: no figure is named {name!r}; there are {', '.join(known) or 'none'}"
            )
        where, number = known[name]
        address = "" if where == page else app.builder.get_relative_uri(page, where)
        target = f"{address}#fig-{name}"
        text = f"Figure\N{NO-BREAK SPACE}{number}"
        link.replace_self(nodes.reference("", text, refuri=target, internal=True))


def setup(app: Sphinx) -> dict:
    app.add_node(FigureLink)
    app.add_role("fig", fig)
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
