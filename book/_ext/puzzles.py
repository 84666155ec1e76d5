"""```{puzzles}```: every puzzle of the workshop, in a section for each chapter.

Their text stands in mathlib/workshop/puzzles alone.
"""

from html import escape
from itertools import groupby
from pathlib import Path

import contents
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from mathlib.workshop import grade, page
from mathlib.workshop.puzzle import Puzzle


def by_chapter(root: Path) -> list[tuple[str, list[Puzzle]]]:
    """Chapters in reading order with their puzzles, the first grade first."""
    order = [name.removeprefix("chapters/") for name in contents.numbered(root)]
    every = grade.every()
    lost = {one.name: one.chapter for one in every if one.chapter not in order}
    if lost:
        raise ExtensionError(f"puzzles of chapters that are none: {lost}")
    every.sort(key=lambda one: order.index(one.chapter))
    return [(word, list(own)) for word, own in groupby(every, key=lambda one: one.chapter)]


class Puzzles(Directive):
    """How many there are, and a section for each chapter."""

    def run(self) -> list[nodes.Node]:
        groups = by_chapter(Path(self.state.document.settings.env.srcdir))
        count = sum(len(own) for _, own in groups)
        said = f'<p class="mlx-progress" role="status">{count} puzzles.</p>'
        return [_raw(said), *(self.section(word, own) for word, own in groups)]

    def section(self, word: str, own: list[Puzzle]) -> nodes.Node:
        """A chapter's puzzles under a link to it."""
        document, chapter = self.state.document, f"chapters/{word}"
        env = document.settings.env
        root, address = Path(env.srcdir), env.app.builder.get_relative_uri(env.docname, chapter)
        whole = contents.title(root, chapter)
        title = nodes.title("", whole.partition(": ")[0])
        made = nodes.section("", title, ids=[f"workshop-{word}"])
        document.note_explicit_target(made)
        number = contents.number(root, chapter)
        made += _raw(f'<p><a href="{address}">{number}. {escape(whole)}</a></p>')
        made += [_raw(page.task(one)) for one in own]
        return made


def _raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def setup(app: Sphinx) -> dict:
    app.add_directive("puzzles", Puzzles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
