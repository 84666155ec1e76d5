"""What a page says without being read through: words of the glossary and symbols of the chapter
carry their meaning; in the first screen stand the chapter's drawing and, folded, what there is to
remember.
"""

from collections.abc import Iterator
from pathlib import Path

import places
from docutils import nodes
from search_index import text_of
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.writers.html5 import HTML5Translator

LAST = "What to remember"
FOLD = '<details class="mlx-short"><summary>What you will know {}</summary>', "</details>"


class Tip(nodes.Inline, nodes.TextElement):
    """A word or symbol that has a meaning to show."""


def visit(self: HTML5Translator, node: Tip) -> None:
    self.body.append(self.starttag(node, "span", "", CLASS="mlx-tip", **node["shown"]))


def depart(self: HTML5Translator, node: Tip) -> None:
    self.body.append("</span>")


def definitions(env: BuildEnvironment) -> dict[str, str]:
    """Of each word, by its anchor in the glossary, if the book has one."""
    if "book/glossary" not in env.all_docs:
        return {}
    items = env.get_doctree("book/glossary").findall(nodes.definition_list_item)
    return {
        anchor: text_of(item[-1])
        for item in items
        for term in item.findall(nodes.term)
        for anchor in term["ids"]
    }


def symbols(doctree: nodes.document) -> Iterator[tuple[str, str]]:
    """Each symbol of the chapter's table, with what its row says."""
    for table in doctree.findall(nodes.table):
        rows = list(table.findall(nodes.row))
        for row in rows[1:] if rows[0][0].astext() in places.LETTER else ():
            for one in row[0].findall(nodes.math):
                yield one.astext(), text_of(row[1])


def explain(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Words that link to the glossary, and the first of each symbol in a section."""
    if not page.startswith("chapters/"):
        return
    words, known = definitions(app.env), dict(symbols(doctree))
    for link in list(doctree.findall(nodes.reference)):
        said = words.get(link.get("refuri", "").partition("#")[2])
        if said and link.children:
            link.children = [Tip("", "", *link.children, shown={"data-tip": said})]
    seen = set()
    for math in list(doctree.findall(nodes.math)):
        place: nodes.Node = math
        while not isinstance(place, nodes.section | nodes.table | nodes.document):
            place = place.parent
        one = (id(place), math.astext())
        if one[1] in known and one not in seen and isinstance(place, nodes.section):
            shown = {"data-tip": known[one[1]], "tabindex": "-1"}  # a tap focuses it, no key stops
            math.replace_self(Tip("", "", math.deepcopy(), shown=shown))
        seen.add(one)


def summarise(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """The bullets of the last section, once more after the first paragraph, under a drawing."""
    sections = [one for one in doctree.findall(nodes.section) if places.title_of(one) == LAST]
    bullets = next((b for one in sections for b in one.findall(nodes.bullet_list)), None)
    first = next(doctree.findall(nodes.paragraph), None)
    if bullets is None or first is None:
        return
    again = bullets.deepcopy()
    for node in again.findall(nodes.Element):
        node["ids"] = []  # an anchor stands once
    drawing = Path(app.srcdir) / f"book/thumbs/{page.rpartition('/')[2]}.svg"
    svg = drawing.read_text("utf-8").strip()
    fold = [nodes.raw("", html.format(svg), format="html") for html in FOLD]
    place = first.parent.index(first) + 1
    first.parent[place:place] = [fold[0], again, fold[1]]


def setup(app: Sphinx) -> dict:
    app.add_node(Tip, html=(visit, depart))
    app.connect("doctree-resolved", explain)
    app.connect("doctree-resolved", summarise)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
