"""Cells tagged `hide-input`: the result first, below it one quiet line that unfolds the code.

What the line says follows from what the cell shows; the cell's metadata key `fold` says otherwise.
Cells that show nothing unfold together with the folded cell that follows, under one line.
A cell that only calls for an experiment or a listing shows that, and no code.
`hide-output` folds what comes out, `hide-cell` both. Solutions of exercises fold under their title.
All are <details>: whole without scripts, reachable by keyboard.
"""

import ast
from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node

WORDS = (  # the first mark found in a cell's stored result names the line
    ("mlx-verdict", "how this was tried"),
    ("mlx-predict", "how the answer was found"),
    ("mlx-compar", "how this was measured"),
    ("<svg", "how this was drawn"),
)

SILENT = ("imports", "preparation")
PRINTS = "what it prints"
CALLS = ("explore", "source")  # say nothing that their result does not


class Fold(nodes.General, nodes.Element):
    """<details> with one line."""


def only_imports(code: str) -> bool:
    """Whether a cell only imports."""
    try:
        lines = ast.parse(code).body
    except SyntaxError:
        return False
    return bool(lines) and all(isinstance(line, ast.Import | ast.ImportFrom) for line in lines)


def only_calls(code: str) -> bool:
    """Whether a cell only calls for an experiment or a listing of the library."""
    try:
        lines = ast.parse(code).body
    except SyntaxError:
        return False
    calls = [line.value for line in lines if isinstance(line, ast.Expr)]
    return (
        len(calls) == len(lines) == 1
        and getattr(calls[0], "func", None) is not None
        and (getattr(calls[0].func, "id", "") in CALLS)
    )


def words(code: str, shown: str) -> str:
    """What the line below a result says."""
    if only_imports(code):
        return "imports"
    if not shown:
        return "preparation"
    return next((said for mark, said in WORDS if mark in shown), "how this was made")


def folded(said: str, *inside: nodes.Node) -> Fold:
    return Fold("", *inside, words=said, classes=["mlx-fold"])


def fold(cell: nodes.container) -> None:
    """Code below its result, folded as the cell's tags say."""
    mode = cell.attributes.pop("hide_mode", "")
    kept = {part.get("nb_element"): part for part in cell.children}
    code, shown = kept.get("cell_code_source"), kept.get("cell_code_output")
    if shown and code and only_calls(code.astext()):
        cell.remove(code)
        return
    if not mode:
        return
    inside = "".join(part.astext() for part in (shown.findall(nodes.Text) if shown else ()))
    said = cell["cell_metadata"].get("fold") or words(code.astext() if code else "", inside)
    parts = [part for part in (code, shown) if part]
    if mode == "all":
        cell.children = []
        cell += folded(said, *parts)
        return
    cell.children = []
    if shown:
        cell += folded(PRINTS, shown) if "output" in mode else shown
    if code:
        cell += folded(said, code) if "input" in mode else code


def silent(cell: nodes.Node) -> bool:
    """Whether a cell shows nothing but a line that says no more than this."""
    inside = cell.children
    return len(inside) == 1 and isinstance(inside[0], Fold) and inside[0]["words"] in SILENT


def join(cell: nodes.container) -> None:
    """A silent cell's code moves in front of that of the folded cell right behind it."""
    after = cell.next_node(descend=False, siblings=True)
    behind = after.children[-1] if getattr(after, "children", None) else None
    if not silent(cell) or not isinstance(behind, Fold) or behind["words"] == PRINTS:
        return
    (before,) = cell.children
    behind[:0] = before.children
    if behind["words"] == "imports":
        behind["words"] = before["words"]
    cell.parent.remove(cell)


class FoldCells(SphinxPostTransform):
    """Runs before the notebook reader's own folding, and leaves nothing to it."""

    default_priority = 198
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        cells = [
            node
            for node in self.document.findall(nodes.container)
            if node.get("nb_element") == "cell_code"
        ]
        for cell in cells:
            fold(cell)
        for cell in cells:
            join(cell)


class FoldSolutions(SphinxPostTransform):
    """A solution under its title. The contents of exercises lose their ids: all had the same."""

    default_priority = 199
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        for node in list(self.document.findall(solution_node)):
            title, *inside = node.children
            kept = folded(title.astext(), *inside)
            node.replace_self(kept)  # hands on the id
            kept["classes"] = ["admonition", "solution"]
        for section in self.document.findall(nodes.section):
            if section["ids"] in (["exercise-content"], ["solution-content"]):
                section["ids"] = []


def open_fold(self: HTML5Translator, node: Fold) -> None:
    self.body.append(self.starttag(node, "details"))
    self.body.append(f"<summary>{escape(node['words'])}</summary>\n")


def close_fold(self: HTML5Translator, node: Fold) -> None:
    self.body.append("</details>\n")


def setup(app: Sphinx) -> dict:
    app.add_node(Fold, html=(open_fold, close_fold))
    app.add_post_transform(FoldCells)
    app.add_post_transform(FoldSolutions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
