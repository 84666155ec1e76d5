"""Each formula with its place: equation, section, the runs that try it, experiment, tests.

Nothing is listed by hand; tools/map.py writes it down for the book and for `mathlib where`.
A docstring that ends in `Chapter: memory (eq-states)` names the place; runs are what the code cells
from that place on call, tests are those of the module's name.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))
import contents  # noqa: E402

PACKAGE = ROOT / "mathlib"
FORMULAS = ("compute", "memory", "traffic", "schedule", "plan")
RUNS = ("launch", "meters", "model", "parallel", "trials") + tuple(
    f"parallel/{room}" for room in ("experts", "pipeline", "sequences", "tensor", "zero")
)
STAGE_SETTING = {"gpt", "data", "oracle"}  # in every run, so they tell nothing about one
PLACE = re.compile(r"^\s*Chapter: (.+)$", re.M)


@dataclass(frozen=True)
class Row:
    """One formula at one place of the book."""

    function: str  # traffic.comm.sent
    says: str  # the first paragraph of its docstring
    chapter: str  # the chapter's word
    equation: str = ""  # its label; empty where the formula has no numbered equation of its own
    section: str = ""
    runs: list[str] = field(default_factory=list)
    experiments: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)


def functions(rooms: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """(room.module, name, docstring) of what is public at the top of a module."""
    for room in rooms:
        for path in sorted((PACKAGE / room).glob("[!_]*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_":
                    yield dotted(path), node.name, ast.get_docstring(node) or ""


def dotted(path: Path) -> str:
    """room.module"""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def places(docstring: str) -> list[tuple[str, str]]:
    """(chapter, equation) pairs of lines like "Chapter: collectives (eq-bound, eq-sent)"."""
    pairs = []
    for place in PLACE.findall(docstring):
        word, _, labels = place.rstrip(".").partition(" (")
        pairs += [(word, label.strip()) for label in labels.rstrip(")").split(",")]
    return pairs


@cache
def notebooks() -> dict[str, Path]:
    """The chapters by their word, in the book's order."""
    return {path.stem: path for path in contents.notebooks(ROOT) if path.parent.name != "trials"}


@cache
def cells(word: str) -> list[tuple[str, str, str]]:
    """(section, "code" or "markdown", source) of each cell, a cell with headings cut at them."""
    section, found = "", []
    for cell in json.loads(notebooks()[word].read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        pieces = (
            re.split(r"^(?=## )", source, flags=re.M) if cell["cell_type"] != "code" else [source]
        )
        for piece in pieces:
            if cell["cell_type"] != "code" and piece.startswith(("# ", "## ")):
                section = piece.splitlines()[0].lstrip("# ")  # first the page's title
            found.append((section, cell["cell_type"], piece))
    return found


def labels(word: str) -> dict[str, str]:
    """The section of each numbered equation of a chapter."""
    texts = [(section, text) for section, kind, text in cells(word) if kind == "markdown"]
    return {
        label: section
        for section, text in texts
        for label in re.findall(r"^\$\$ \((.+)\)", text, re.M)
    }


def names_used(source: str, imported: dict[str, str], called: dict[str, str]) -> set[str]:
    """module.function for each library function that a cell names, whatever it calls a module."""
    found = set(re.findall(r"\b([a-z_]\w*)\.([A-Za-z]\w*)", source))
    pairs = {(called.get(module, module), name) for module, name in found}
    bare = set(re.findall(r"(?<![\w.\"'`])([A-Za-z_]\w*)", source)) & imported.keys()
    return {f"{module}.{name}" for module, name in pairs} | {f"{imported[b]}.{b}" for b in bare}


@cache
def uses(word: str) -> list[tuple[str, set[str]]]:
    """(section, library functions named) of each code cell of a chapter."""
    imported: dict[str, str] = {}
    called: dict[str, str] = {}
    code = [(section, source) for section, kind, source in cells(word) if kind == "code"]
    for _, source in code:
        for module, names in re.findall(
            r"from mathlib(?:\.\w+)+\.(\w+) import \(?([^()]+?)\)?$", source, re.M
        ):
            imported |= {name.strip(): module for name in names.split(",") if name.strip()}
        found = re.findall(r"^from mathlib.* import (\w+) as (\w+)$", source, re.M)
        called |= {alias: name for name, alias in found}
    return [(section, names_used(source, imported, called)) for section, source in code]


@cache
def run_functions() -> dict[str, str]:
    """module.function -> room.module.function for what runs and counts."""
    found = {}
    for room in RUNS:
        for path in sorted((PACKAGE / room).glob("[!_]*.py")):
            if path.stem not in STAGE_SETTING:
                for node in ast.parse(path.read_text("utf-8")).body:
                    if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_":
                        found[f"{path.stem}.{node.name}"] = f"{dotted(path)}.{node.name}"
    return found


def runs_near(word: str, section: str) -> list[str]:
    """What runs in a section, or else in the one right behind it: derive first, then run."""
    order = list(dict.fromkeys(section for section, _, _ in cells(word)))
    place = order.index(section)
    for near in order[place : place + 2]:
        named = set().union(*(names for here, names in uses(word) if here == near))
        found = sorted(run_functions()[name] for name in named & run_functions().keys())
        if found:
            return found
    return []


@cache
def experiments() -> dict[str, set[str]]:
    """Each experiment's id and the module.function pairs whose code it shows."""
    found = {}
    for path in sorted((PACKAGE / "explore").glob("[!_]*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "experiment":
                shown = [k.value for k in node.keywords if k.arg == "code"]
                found[ast.literal_eval(node.args[0])] = {
                    ast.unparse(one) for code in shown for one in getattr(code, "elts", [])
                }
    return found


def tests_of(module: str, word: str) -> list[str]:
    """Tests that bear the module's name, and the chapter's agreement of formula and run."""
    room, _, leaf = module.rpartition(".")
    own = sorted((ROOT / "tests" / room.replace(".", "/")).glob(f"test_{leaf}*.py"))
    shared = (ROOT / "tests" / "agreement").glob(f"test_{word}.py")
    return [path.relative_to(ROOT).as_posix() for path in [*own, *shared]]


def section_of(word: str, equation: str, name: str) -> str:
    """Where the equation stands; without one, the first section whose code names the function."""
    if word not in notebooks():
        return ""
    if equation:
        return labels(word).get(equation, "")
    return next((section for section, names in uses(word) if name in names), "")


@cache
def rows() -> list[Row]:
    """All formulas, and those functions of the runs that an equation belongs to."""
    found = []
    for module, name, doc in functions(FORMULAS + RUNS):
        short = f"{module.rpartition('.')[2]}.{name}"
        for word, equation in places(doc):
            section = section_of(word, equation, short)
            found.append(
                Row(
                    function=f"{module}.{name}",
                    says=doc.partition("\n\n")[0].replace("\n", " "),
                    chapter=word,
                    equation=equation,
                    section=section,
                    runs=runs_near(word, section) if section else [],
                    experiments=[id for id, code in experiments().items() if short in code],
                    tests=tests_of(module, word),
                )
            )
    return found
