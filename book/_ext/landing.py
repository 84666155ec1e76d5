"""The front page: what surprised, a card for each chapter, the ledger's count, the poster.

Every figure is read from the chapters' stored outputs or counted from their words. None is typed.
They are said with three digits; the run behind the link has more.
"""

import os
import re
from html import escape
from pathlib import Path

import contents
import stored
from claims_ledger import all_verdicts, count_bar, counts, stored_verdicts
from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from mathlib.show import says
from mathlib.show.ledger import claims
from mathlib.show.schemes import five_axes, poster

WORDS_PER_MINUTE = 100  # four chapters of 5,600 to 8,800 words took a reader 56 to 75 minutes
KINDS = "svg", "png"  # of the poster's files
FOLDED = re.compile(r"\{solution-start\}.*?\{solution-end\}", re.S)


def prose(notebook: dict) -> str:
    """The text of a chapter as it stands open: neither code nor folded answers."""
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown"]
    return FOLDED.sub("", "\n\n".join(cells))


def minutes(notebook: dict) -> int:
    """How long a chapter takes, with its formulas, figures and guesses, in whole minutes."""
    words = re.findall(r"[A-Za-z][\w'-]*", prose(notebook))
    return max(1, round(len(words) / WORDS_PER_MINUTE))


def short(figure: str) -> str:
    """A figure of a verdict with three digits: 344.1% is 344%; one with fewer stays as it is."""
    value = re.fullmatch(r"([\d,]*\.?\d+)(%?)", figure)
    if not value or len(re.sub(r"\D", "", value[1]).lstrip("0")) <= says.DIGITS:
        return figure
    return says.number(float(value[1].replace(",", ""))) + value[2]


class FromChapters(Directive):
    """HTML made of what the chapters hold; made anew when one of them changes."""

    has_content = True

    @property
    def env(self) -> BuildEnvironment:
        return self.state.document.settings.env

    def address(self, page: str) -> str:
        return self.env.app.builder.get_relative_uri(self.env.docname, page)

    def words(self) -> str:
        """The content as HTML, on one line."""
        return " ".join(escape(line.strip()) for line in self.content)

    def run(self) -> list[nodes.Node]:
        for chapter in contents.notebooks(Path(self.env.srcdir)):
            self.env.note_dependency(str(chapter))
        return [nodes.raw("", self.html(), format="html")]


class Result(FromChapters):
    """```{result} C01```: a number out of a verdict's evidence, what it means, a link to its run.

    `find` is a pattern for the evidence with a group for each {number} of `show` and the text.
    """

    required_arguments = 1
    option_spec = {"find": directives.unchanged_required, "show": directives.unchanged_required}

    def html(self) -> str:
        claim = self.arguments[0]
        said = all_verdicts(Path(self.env.srcdir))
        if claim not in said:
            raise ExtensionError(f"result {claim}: no chapter has settled this claim")
        verdict, page = said[claim]
        evidence = "\n".join(verdict.facts())
        found = re.search(self.options["find"], evidence)
        if not found:
            raise ExtensionError(
                f"result {claim}: find = {self.options['find']!r} is not in its evidence, "
                f"{evidence!r}"
            )
        figures = {name: short(figure) for name, figure in found.groupdict().items()}
        number = escape(self.options["show"].format(**figures))
        words = self.words().format(**figures)
        return (
            f'<a class="mlx-result" href="{self.address(page)}#claim-{claim}"><b>{number}</b> '
            f"<span>{words}</span></a>"
        )


class ChapterCard(FromChapters):
    """```{chapter-card} compute```: a drawing, the title, what you will be able to do, and two
    counts.
    """

    required_arguments = 1

    def html(self) -> str:
        name, root = self.arguments[0], Path(self.env.srcdir)
        chapter, drawing = root / f"chapters/{name}.ipynb", root / f"book/thumbs/{name}.svg"
        self.env.note_dependency(str(drawing))
        notebook = stored.notebook(chapter)
        subject = contents.title(root, f"chapters/{name}").partition(": ")[0]
        both = chapter, root / f"chapters/trials/{name}.ipynb"
        settled = sum(len(stored_verdicts(path)) for path in both if path.exists())
        tried = f" · {settled} claim{'s' if settled != 1 else ''} settled" if settled else ""
        return (
            f'<a class="mlx-card" href="{self.address(f"chapters/{name}")}">'
            f"{drawing.read_text('utf-8').strip()}"
            f"<b>{contents.number(root, f'chapters/{name}')}. {escape(subject)}</b> "
            f"<span>{self.words()}</span> "
            f"<small>{minutes(notebook)} min{tried}</small></a>"
        )


class LedgerCount(FromChapters):
    """```{ledger-count}```: the bar of verdicts, and a link to all of them."""

    def html(self) -> str:
        return (
            f'<a class="mlx-trial" href="{self.address("book/ledger")}">'
            f"<span>{self.words().format(claims=len(claims()))}</span>{count_bar(counts(Path(self.env.srcdir)))}</a>"
        )


class PosterFigure(Directive):
    """```{poster}```: the poster, and files that one can pass on.

    BOOK_PDF is the book's own file, where a deploy puts it beside the pages.
    """

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        for module in (five_axes, poster):
            env.note_dependency(module.__file__)
        root = "../" * env.docname.count("/")
        files = {kind.upper(): f"_static/poster.{kind}" for kind in KINDS}
        if book := os.environ.get("BOOK_PDF"):
            files["the whole book as PDF"] = book
        links = " · ".join(f'<a href="{root}{to}">{words}</a>' for words, to in files.items())
        taken = f'<p class="mlx-files">To pass on: {links}</p>'
        return [nodes.raw("", poster.poster(caption="")._repr_html_() + taken, format="html")]


def setup(app: Sphinx) -> dict:
    app.add_directive("result", Result)
    app.add_directive("chapter-card", ChapterCard)
    app.add_directive("poster", PosterFigure)
    app.add_directive("ledger-count", LedgerCount)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
