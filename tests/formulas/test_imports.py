"""Arrows go one way: show -> dist -> formulas -> data. Formulas need nothing but Python and load at
once.
"""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mathlib

ROOT = Path(mathlib.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
HEAVY = {"torch", "matplotlib", "ipywidgets", "numpy", "IPython", "cloudpickle"}
BELOW = {
    "formulas": {"formulas"},
    "dist": {"formulas", "dist"},
    "show": {"formulas", "dist", "show"},
}


def room(path):
    inner = path.relative_to(ROOT).parts
    return inner[0] if len(inner) > 1 else "formulas"


def imports(tree):
    """(module, at module level) of every import in a file."""
    inside = {
        id(node)
        for f in ast.walk(tree)
        if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(f)
    }
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module] + [
                f"{node.module}.{alias.name}" for alias in node.names if node.module == "mathlib"
            ]
        yield from ((name, id(node) not in inside) for name in names)


def wrongs(here, source):
    """What a file of this room imports and must not, in words."""
    for name, at_top in imports(ast.parse(source)):
        first, *rest = name.split(".")
        if first == "mathlib":
            there = rest[0] if rest and rest[0] in ("dist", "show") else "formulas"
            if there not in BELOW[here]:
                yield f"{here} imports {name}"
            if here == "show" and there == "dist" and at_top:
                yield f"{here} imports {name} at the top, so it needs torch"
        elif first == "torch" and here != "dist":
            yield f"{here} imports torch"
        elif first not in sys.stdlib_module_names and (
            here == "formulas" or (here == "show" and at_top)
        ):
            yield f"{here} imports {name}" + (" at the top" if here == "show" else "")
        elif first in {"matplotlib", "ipywidgets"} and here != "show":
            yield f"{here} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_file_imports_only_what_its_room_may(path):
    assert not list(wrongs(room(path), path.read_text("utf-8")))


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("formulas", "import torch"),
        ("formulas", "def f():\n    import numpy"),
        ("formulas", "from mathlib.show import svg"),
        ("formulas", "from mathlib import dist"),
        ("dist", "from mathlib.show import svg"),
        ("dist", "import matplotlib"),
        ("show", "import matplotlib.pyplot"),
        ("show", "def f():\n    import torch"),
        ("show", "from mathlib.dist import gpt"),
    ],
)
def test_the_rules_see_a_wrong_arrow(here, source):
    assert list(wrongs(here, source))


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("show", "def f():\n    import matplotlib"),
        ("dist", "import torch"),
        ("formulas", "import math, tomllib"),
        ("show", "def f():\n    from mathlib.dist import meter"),
        ("dist", "from mathlib import flops"),
    ],
)
def test_the_rules_allow_a_right_one(here, source):
    assert not list(wrongs(here, source))


def test_formulas_import_each_other_without_a_circle():
    arrows = {}
    for path in ROOT.glob("*.py"):
        names = {name for name, at_top in imports(ast.parse(path.read_text("utf-8"))) if at_top}
        arrows[path.stem] = {
            name.split(".")[1] for name in names if name.startswith("mathlib.")
        } - {path.stem}
    done = set()
    while len(done) < len(arrows):
        free = {
            name
            for name, needs in arrows.items()
            if name not in done and needs & set(arrows) <= done
        }
        assert free, f"a circle among {sorted(set(arrows) - done)}"
        done |= free


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Run Python as a user's machine does, with bytecode kept: seconds of the quickest of some
    runs, and its output.
    """
    cache = tmp_path_factory.mktemp("bytecode")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    environment |= {"PYTHONPATH": str(ROOT.parent), "PYTHONPYCACHEPREFIX": str(cache)}

    def run(*arguments, times=8):
        seconds = []
        for _ in range(times):
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            seconds.append(time.perf_counter() - start)
        return min(seconds), done.stdout

    return run


FORMULAS = sorted(path.stem for path in ROOT.glob("[!_]*.py"))


def test_all_formulas_load_within_100_ms(python):
    code = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    modules = ", ".join(f"mathlib.{name}" for name in FORMULAS)
    seconds = min(float(python("-c", code.format(modules), times=1)[1]) for _ in range(9))
    assert seconds < 0.1, (
        f"mathlib and its {len(FORMULAS)} formula modules took {1e3 * seconds:.0f} ms to import"
    )


def test_the_command_line_starts_within_150_ms(python):
    seconds, _ = python("-m", "mathlib", "params", "gpt2")
    assert seconds < 0.15, f"took {1e3 * seconds:.0f} ms"


@pytest.mark.parametrize(
    "modules",
    [
        [f"mathlib.{name}" for name in FORMULAS],
        [f"mathlib.show.{path.stem}" for path in (ROOT / "show").glob("*.py")],
    ],
    ids=["formulas", "show"],
)
def test_nothing_heavy_is_loaded(python, modules):
    modules = [name.removesuffix(".__init__") for name in modules]
    _, out = python("-c", f"import sys, {', '.join(modules)}; print(*sys.modules)", times=1)
    assert not HEAVY & {name.split(".")[0] for name in out.split()}
