"""Cells tagged `hide-input`: the result first, below it one quiet line that unfolds the code.

What the line says follows from what the cell shows; the cell's metadata key `fold` says otherwise.
Cells that show nothing unfold with the result they belong to, the next one or, where they check,
the one before, under its one line.
A cell that only calls for an experiment or a listing shows that, and no code. One that only asks
for a device's record is left out where there is none.
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

SILENT = IMPORTS, PREPARATION, CHECKS = "imports", "preparation", "how this was checked"
PRINTS = "what it prints"
CALLS = ("explore", "source")  # say nothing that their result does not
MAY_BE_MISSING = "recorded"
WITHOUT_CODE = (*CALLS, MAY_BE_MISSING)  # on a page


class Fold(nodes.General, nodes.Element):
    """<details> with one line."""


def only_imports(code: str) -> bool:
    """Whether a cell only imports."""
    try:
        lines = ast.parse(code).body
    except SyntaxError:
        return False
    return bool(lines) and all(isinstance(line, ast.Import | ast.ImportFrom) for line in lines)


def called(code: str) -> str:
    """The function that a cell calls and does nothing else; empty where there is none."""
    try:
        lines = ast.parse(code).body
    except SyntaxError:
        return ""
    calls = [line.value for line in lines if isinstance(line, ast.Expr)]
    alone = len(calls) == len(lines) == 1 and isinstance(calls[0], ast.Call)
    return getattr(calls[0].func, "id", "") if alone else ""


def words(code: str, shown: str) -> str:
    """What the line below a result says."""
    if only_imports(code):
        return IMPORTS
    if not shown:
        return PREPARATION
    return next((said for mark, said in WORDS if mark in shown), "how this was made")


def folded(said: str, *inside: nodes.Node) -> Fold:
    return Fold("", *inside, words=said, classes=["mlx-fold"])


def fold(cell: nodes.container) -> None:
    """Code below its result, folded as the cell's tags say."""
    mode = cell.attributes.pop("hide_mode", "")
    kept = {part.get("nb_element"): part for part in cell.children}
    code, shown = kept.get("cell_code_source"), kept.get("cell_code_output")
    name = called(code.astext()) if code else ""
    if shown and name in CALLS:
        cell.remove(code)
        return
    if not shown and name == MAY_BE_MISSING:
        cell.parent.remove(cell)
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


def kinds(cell: nodes.Node) -> list[str]:
    """What a cell is made of, from top to bottom."""
    return [str(part.get("nb_element", "")) or type(part).__name__ for part in cell.children]


def silent(cell: nodes.Node) -> bool:
    """Whether a cell shows nothing but its line."""
    inside = [part.get("nb_element") for part in cell.findall(nodes.container)]
    return kinds(cell) == ["Fold"] and "cell_code_output" not in inside


def has_room(cell: nodes.Node) -> bool:
    """Whether a line may stand below what a cell shows: an experiment needs none."""
    return kinds(cell) in (["cell_code_output", "Fold"], ["cell_code_source", "cell_code_output"])


def looks_back(cell: nodes.Node) -> bool:
    """Whether a cell ends in an assert: it checks a result that stands there already."""
    try:
        lines = ast.parse(cell.astext()).body
    except SyntaxError:
        return False
    return bool(lines) and isinstance(lines[-1], ast.Assert)


def place(cell: nodes.Node) -> tuple[nodes.Node | None, nodes.Node | None]:
    """The solution and the section, right below the chapter's title, that a cell stands in."""
    above: list[nodes.Node] = []
    while cell.parent is not None:
        above.append(cell := cell.parent)
    solution = next((node for node in above if isinstance(node, solution_node)), None)
    sections = [node for node in above if isinstance(node, nodes.section)]
    return solution, sections[-2] if len(sections) > 1 else None


def home(cell: nodes.container, cells: list[nodes.container]) -> nodes.container | None:
    """The result that a silent cell belongs to: the one before it where it checks, the next one
    where it prepares, and one of its own section where there is any.
    """
    here, back, (solution, section) = cells.index(cell), looks_back(cell), place(cell)

    def cost(other: nodes.container) -> tuple[bool, bool, int]:
        there = cells.index(other)
        away = section is not None and place(other)[1] is not section
        return away, (there < here) is not back, abs(there - here)

    near = [other for other in cells if has_room(other) and place(other)[0] is solution]
    return min(near, key=cost, default=None)


def line_of(result: nodes.container, said: str) -> Fold:
    """The line below a result. One that shows its code has none yet, and gets what is said."""
    line = result.children[-1]
    if not isinstance(line, Fold):
        line = folded(said)
        result += line
    elif line["words"] in SILENT and line["words"] != said:
        line["words"] = PREPARATION
    return line


def join(cells: list[nodes.container]) -> None:
    """What silent cells hold unfolds with the result it belongs to, in the order it ran."""
    homes = [(cell, home(cell, cells)) for cell in cells if silent(cell)]
    at = {id(cell): n for n, cell in enumerate(cells)}
    before = [(c, to) for c, to in homes if to and at[id(c)] < at[id(to)]]
    after = [(c, to) for c, to in homes if to and at[id(c)] > at[id(to)]]
    for cell, result in [*before[::-1], *after]:
        (inside,) = cell.children
        ahead = at[id(cell)] < at[id(result)]
        line = line_of(result, inside["words"] if ahead else CHECKS)
        line[:] = (
            [*inside.children, *line.children] if ahead else [*line.children, *inside.children]
        )
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
        join(cells)


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
