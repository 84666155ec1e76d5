"""A cell of a chapter without its notebook: what it needs of the cells above it, what it shows.

Cells are sources in reading order. A name comes from the last cell above that binds it. Of a cell
above everything runs but imports of names that nobody needs, so that the imports at the top of a
chapter ask for no more than a cell uses.
"""

import ast
import json
import linecache
import re
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache
from html import escape
from io import StringIO
from typing import Any

from mathlib.records import dataclass
from mathlib.show.unbroken import unbroken

MOST = 20_000  # characters of what is printed; a page that shows more is slow
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)
CELL = re.compile(r"this cell|cell \d+ of this page")
IMPORT = (ast.Import, ast.ImportFrom)
BODY = ""  # what a cell is needed for that is no import


@dataclass(frozen=True)
class Names:
    """Of a cell, at its top level."""

    imports: dict[str, str]  # what each import binds, and what it is called where it is from
    reads: frozenset[str]  # before the cell binds it
    late: frozenset[str]  # read by functions, whenever these are called
    binds: frozenset[str]
    broken: bool = False  # no Python: whatever it may bind, it says what is wrong


def bound(alias: ast.alias) -> str:
    """The name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def brought(line: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """What an import binds, and what each is called where it is from."""
    where = f"{line.module}." if isinstance(line, ast.ImportFrom) else ""
    return {bound(one): where + one.name for one in line.names}


@cache
def names(source: str) -> Names:
    """What a cell imports, reads and binds."""
    try:
        lines = ast.parse(source).body
    except SyntaxError:
        return Names({}, frozenset(), frozenset(), frozenset(), broken=True)
    imports: dict[str, str] = {}
    reads, late, binds = set[str](), set[str](), set[str]()
    for line in lines:
        if isinstance(line, IMPORT):
            imports |= brought(line)
        else:
            read, later, new = used(line)
            reads |= read - binds
            late |= later
            binds |= new
    return Names(imports, frozenset(reads | late - binds), frozenset(late), frozenset(binds))


def used(line: ast.stmt) -> tuple[set[str], set[str], set[str]]:
    """The names that a statement reads, those that functions in it read, and those it binds."""
    reads, binds = free(line), stored(line)
    late = set[str]().union(*(free(one) for one in ast.walk(line) if isinstance(one, FUNCTION)))
    if isinstance(line, ast.AugAssign):
        reads |= stored(line.target)
    return reads - (binds if isinstance(line, COMPOUND) else set()), late, binds


def free(node: ast.AST) -> set[str]:
    """What is read in it and not bound in a scope of its own."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    inside = set[str]().union(*map(free, ast.iter_child_nodes(node)))
    if isinstance(node, (*FUNCTION, *COMPREHENSION, ast.ClassDef)):
        return inside - set[str]().union(*map(stored, ast.iter_child_nodes(node)))
    return inside


def stored(node: ast.AST) -> set[str]:
    """What it binds, in its own scope."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Lambda, *COMPREHENSION)):
        return set()
    own = {bound(node)} if isinstance(node, ast.alias) else set[str]()
    own |= {node.arg} if isinstance(node, ast.arg) else set()
    return own.union(*map(stored, ast.iter_child_nodes(node)))


def needed(sources: Sequence[str], at: int) -> set[tuple[int, str]]:
    """Of which cell what is needed: its body, or a name that it imports."""
    cells = [names(source) for source in sources[: at + 1]]
    found = {(at, BODY), *((at, name) for name in cells[at].imports)}
    found |= {(i, BODY) for i, cell in enumerate(cells) if cell.broken}
    missing = [(i, name) for i, part in found if not part for name in cells[i].reads]
    while missing:
        here, name = missing.pop()
        for i in range(here, -1, -1):
            part = (i, name if name in cells[i].imports else BODY)
            if part[1] or (i < here and name in cells[i].binds):
                if part not in found and not part[1]:
                    missing += [(i, other) for other in cells[i].reads]
                    missing += [(at, other) for other in cells[i].late]
                found.add(part)
                break
    return found


def imported(sources: Sequence[str], at: int) -> set[str]:
    """Everything that a cell and those it needs import, by its full name."""
    return {names(sources[i]).imports[name] for i, name in needed(sources, at) if name}


def reduced(source: str, file: str, keep: set[str]) -> ast.Module:
    """A cell with those imports alone that are kept, and with its body if that is."""
    whole = ast.parse(source, file)
    lines = []
    for line in whole.body:
        if isinstance(line, IMPORT):
            line.names = [one for one in line.names if bound(one) in keep]
        if line.names if isinstance(line, IMPORT) else BODY in keep:
            lines.append(line)
    return ast.Module(lines, [])


def execute(tree: ast.Module, file: str, space: dict[str, Any]) -> Any:
    """The value of the last line, if that is an expression."""
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), space)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), file, "eval"), space)
    return None


def run(sources: Sequence[str], at: int) -> tuple[str, Any, str]:
    """What a cell prints, the value that it ends with, and the traceback if it fails."""
    parts = needed(sources, at)
    space: dict[str, Any] = {"__name__": "__main__"}
    value, out = None, StringIO()
    for i in sorted({i for i, _ in parts}):
        file, source, out = file_of(i, at), sources[i], StringIO()
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        keep = {name for j, name in parts if j == i}
        try:
            with redirect_stdout(out):
                value = execute(reduced(source, file, keep), file, space)
        except BaseException as error:  # SystemExit is no end of a page
            return out.getvalue(), None, failure(error)
    return out.getvalue(), value, ""


def file_of(i: int, at: int) -> str:
    """How a traceback names a cell."""
    return "this cell" if i == at else f"cell {i + 1} of this page"


def failure(error: BaseException) -> str:
    """A traceback that begins in the cells."""
    inside = error.__traceback__
    while inside and not CELL.fullmatch(inside.tb_frame.f_code.co_filename):
        inside = inside.tb_next
    return "".join(traceback.format_exception(type(error), error, inside))


def answer(given: str, at: int) -> str:
    """What the page calls: the cells' sources as JSON and the place of one; its output as HTML."""
    printed, value, failed = run(json.loads(given), at)
    more = len(printed) - MOST
    if more > 0:
        printed = f"{printed[:MOST]}\n... and {more:,} characters more"
    return text("stream", printed) + shown(value) + text("error", failed)


def text(kind: str, said: str) -> str:
    return f'<div class="output {kind}"><pre>{escape(said)}</pre></div>' if said else ""


def shown(value: Any) -> str:
    """A value as a notebook shows it."""
    if value is None:
        return ""
    if hasattr(value, "_repr_html_"):
        return f'<div class="output text_html">{unbroken(value._repr_html_())}</div>'
    return text("text_plain", repr(value))
