"""Open cells of chapters that run in the page: which they are, and their marks on it.

A cell runs there if all that it imports, and all that the cells imports which it needs, is in the
browser's archive: the library without its real runs, and of the trials those that need no more.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import folding
import stored
from archive import NOT_IN_BROWSER, OF_CELLS
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform

from mathlib.show import cells

FOLDED = {"hide-input", "hide-cell"}
NO_PAGE_HAS = {"multiprocessing", "subprocess", "threading", "socket"}
NO_CELL_SHOWS = {"mathlib.show.explore", "mathlib.show.source"}  # a widget, files of the library
ELSEWHERE = (
    '<p class="mlx-elsewhere">Cells without Run need PyTorch: <a href="{}">run the notebook'
    "</a>, <code>{}.ipynb</code>.</p>"
)


def sources(chapter: Path) -> list[str]:
    """The code of its cells, in reading order."""
    return ["".join(one["source"]) for one in code_cells(chapter)]


def code_cells(chapter: Path) -> list[dict]:
    return [one for one in stored.notebook(chapter)["cells"] if one["cell_type"] == "code"]


def opened(chapter: Path) -> list[int]:
    """Cells whose code stands on the page, unfolded."""
    return [
        place
        for place, one in enumerate(code_cells(chapter))
        if not FOLDED & set(one["metadata"].get("tags", []))
        and folding.called("".join(one["source"])) not in folding.WITHOUT_CODE
    ]


@cache
def in_browser(root: Path, name: str) -> bool:
    """Whether the page's Python has a module, or the module that a name is from."""
    first, *rest = name.split(".")
    if first != "mathlib":
        return first in sys.stdlib_module_names - NO_PAGE_HAS
    if name in NO_CELL_SHOWS or set(rest[:1]) & (NOT_IN_BROWSER - set(OF_CELLS)):
        return False
    file = root.joinpath(first, *rest).with_suffix(".py")
    if "trials" not in rest or rest == ["trials"]:
        return True
    if not file.exists():
        return in_browser(root, name.rpartition(".")[0])
    return all(in_browser(root, other) for other in imports(file))


def imports(file: Path) -> set[str]:
    """What a module imports, at its top or later."""
    tree = ast.parse(file.read_text("utf-8"))
    lines = [one for one in ast.walk(tree) if isinstance(one, cells.IMPORT)]
    return {name for line in lines for name in cells.brought(line).values()}


def running(root: Path, chapter: Path) -> list[int]:
    """Open cells that run in the page, by their places among all cells of code."""
    code = sources(chapter)
    return [
        place
        for place in opened(chapter)
        if all(in_browser(root, name) for name in cells.imported(code, place))
    ]


def chapters(root: Path) -> list[Path]:
    """All that are there, without trials: what a book's contents leave out is computed, too."""
    return sorted((root / "chapters").glob("*.ipynb"))


def imported(root: Path) -> list[str]:
    """Everything that running cells import."""
    every = [(sources(one), running(root, one)) for one in chapters(root)]
    return sorted(set().union(*(cells.imported(c, at) for c, places in every for at in places)))


class MarkCells(SphinxPostTransform):
    """Each cell's code gets its place; what runs is marked; the first that does not says why. Runs
    before cells are folded, which moves them.
    """

    default_priority = 197
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        root, page = Path(self.env.srcdir), self.env.docname
        chapter = root / f"{page}.ipynb"
        if chapter not in chapters(root):
            return
        found = [
            one
            for one in self.document.findall(nodes.container)
            if one.get("nb_element") == "cell_code_source"
        ]
        if [one.astext() for one in found] != sources(chapter):
            raise ExtensionError(f"{page}: cells of the page are not those of the notebook")
        runs = running(root, chapter)
        for place, one in enumerate(found):
            one["ids"].append(f"cell-{place}")
            one["classes"] += ["mlx-runs"] * (place in runs)
        without = next((place for place in opened(chapter) if place not in runs), None)
        if without is not None:
            found[without] += nodes.raw("", self.elsewhere(page), format="html")

    def elsewhere(self, page: str) -> str:
        to = self.app.builder.get_relative_uri(page, "book/how-to-run")
        to += "#on-your-machine"
        return ELSEWHERE.format(to, page)


def setup(app: Sphinx) -> dict:
    app.add_post_transform(MarkCells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
