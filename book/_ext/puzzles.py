"""```{puzzles}```: every puzzle of the workshop, in a section for each chapter; their text stands in
mathlib/workshop/puzzles alone.
"""

from itertools import groupby
from pathlib import Path

import contents
import landing
import stored
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
    """A section a chapter, and how many puzzles there are."""

    def run(self) -> list[nodes.Node]:
        document = self.state.document
        env = document.settings.env
        groups = by_chapter(Path(env.srcdir))
        count = sum(len(own) for _, own in groups)
        found: list[nodes.Node] = [_raw(f'<p class="mlx-progress" role="status">{count} puzzles.</p>')]
        for word, own in groups:
            notebook = stored.notebook(Path(env.srcdir) / f"chapters/{word}.ipynb")
            subject = landing.heading(notebook).partition(": ")[0]
            section = nodes.section("", nodes.title("", subject), ids=[f"workshop-{word}"])
            address = env.app.builder.get_relative_uri(env.docname, f"chapters/{word}")
            section += _raw(f'<p><a href="{address}">Chapter: {subject}</a></p>')
            section += [_raw(page.task(one)) for one in own]
            document.note_explicit_target(section)
            found.append(section)
        return found


def _raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def setup(app: Sphinx) -> dict:
    app.add_directive("puzzles", Puzzles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
