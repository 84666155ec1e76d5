"""Arrows go one way, by one ordered list of rooms. Formulas need nothing but Python, and load at
once.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mathlib

ROOT = Path(mathlib.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
CORE = ["base", "compute", "memory", "traffic", "schedule", "prover"]
TOOL = ["from_config", "plan"]
FORMULAS = CORE + TOOL
RUNS = ["launch", "meters", "model", "parallel"]
# A room may import itself and every room before it, less those named with it.
ROOMS: dict[str, list[str]] = {
    **{room: [] for room in FORMULAS},
    **{room: ["plan"] for room in RUNS},  # a meter reads a model's config
    "show": RUNS,
    "explore": RUNS,
    "workshop": [*RUNS, "plan", "explore"],
    "cli": [*RUNS, "show", "explore"],
    "trials": ["cli"],
    "main": [*RUNS, "show", "explore", "workshop", "trials"],
}
HEAVY = {"torch", "matplotlib", "ipywidgets", "numpy", "IPython", "cloudpickle"}
LATE = {  # only inside functions
    "show": {"matplotlib", "ipywidgets", "IPython", "numpy"},
    "cli": {"yaml"},
    "workshop": {"torch"},
}
LATE_ROOMS = {"workshop": {"launch", "meters"}}  # a right program goes to real processes


def room_of(parts):
    """The room of a module, given as the parts of its name below mathlib."""
    if parts == ["__main__"]:
        return "main"
    inside = parts and (ROOT / parts[0]).is_dir() and parts[0] != "data"
    return parts[0] if inside else "base"


def module_parts(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def allowed(here):
    """The rooms that a room may import."""
    order = list(ROOMS)
    return set(order[: order.index(here) + 1]) - set(ROOMS[here])


def imports(tree, at_top=True):
    """(module, at module level) of every import in a file."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield from imports(node, at_top and not function)
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [node.module]
            if node.module.split(".")[0] == "mathlib":
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from ((name, at_top) for name in names)


def wrongs(here, source):
    """What a file of this room imports and must not, in words."""
    for name, at_top in imports(ast.parse(source)):
        first, *rest = name.split(".")
        if first == "mathlib":
            there = room_of(rest)
            late = not at_top and there in LATE_ROOMS.get(here, ())
            if there not in allowed(here) and not late:
                yield f"{here} imports {name}: expected only {', '.join(sorted(allowed(here)))}"
        elif here not in [*RUNS, "trials"] and first not in sys.stdlib_module_names:
            if at_top or first not in LATE.get(here, ()):
                yield f"{here} imports {name}" + (" at the top" if here in LATE else "")
        elif first in {"matplotlib", "ipywidgets"} and here in RUNS:
            yield f"{here} imports {name}"


def test_a_file_imports_only_what_its_room_may():
    for path in FILES:
        assert not list(wrongs(room_of(module_parts(path)), path.read_text("utf-8"))), path


def private_names(source):
    """What a file takes from another of ours though its name says that it is that file's own."""
    tree = ast.parse(source)
    ours = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and "mathlib" in n.module]
    names = {alias.name: alias.asname or alias.name for node in ours for alias in node.names}
    yield from (name for name in names if name[0] == "_" and not name.endswith("__"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of_module = node.value.id in names.values() and node.value.id.islower()
            if of_module and node.attr[0] == "_" and not node.attr.endswith("__"):
                yield f"{node.value.id}.{node.attr}"


def test_a_private_name_stays_in_its_file():
    for path in FILES:
        assert not list(private_names(path.read_text("utf-8"))), path


def test_a_private_name_taken_is_seen():
    assert list(private_names("from mathlib.plan.step import _a, b")) == ["_a"]
    assert list(private_names("from mathlib.plan import step\nstep._a(step.b)")) == ["step._a"]


def test_every_folder_is_a_room_of_the_list():
    folders = {path.parent.name for path in ROOT.glob("*/*.py")}
    assert folders <= set(ROOMS), f"say where {folders - set(ROOMS)} stands in ROOMS of this file"


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("base", "import torch"),
        ("compute", "def f():\n    import numpy"),
        ("compute", "from mathlib.show import svg"),
        ("memory", "from mathlib import traffic"),
        ("memory", "from mathlib import launch"),
        ("schedule", "from mathlib.plan import step"),
        ("meters", "from mathlib.plan import step"),
        ("compute", "from mathlib.memory import states"),
        ("meters", "from mathlib.show import svg"),
        ("meters", "from mathlib.model import gpt"),
        ("parallel", "import matplotlib"),
        ("show", "import matplotlib.pyplot"),
        ("show", "def f():\n    import torch"),
        ("show", "from mathlib.model import gpt"),
        ("show", "def f():\n    from mathlib.explore import memory"),
        ("explore", "from mathlib import launch"),
        ("workshop", "from mathlib.launch import launcher"),
        ("explore", "from mathlib.workshop import grade"),
        ("cli", "from mathlib.show import svg"),
        ("cli", "import yaml"),
        ("trials", "from mathlib.cli import parser"),
        ("main", "from mathlib.trials import compute"),
    ],
)
def test_the_rules_see_a_wrong_arrow(here, source):
    assert list(wrongs(here, source))


@pytest.mark.parametrize(
    ("here", "source"),
    [
        ("show", "def f():\n    import matplotlib"),
        ("parallel", "import torch"),
        ("base", "import math, tomllib"),
        ("parallel", "from mathlib.compute import flops"),
        ("explore", "from mathlib.show import svg"),
        ("workshop", "from mathlib.schedule import events"),
        ("workshop", "def f():\n    from mathlib.launch.launcher import run"),
        ("cli", "from mathlib.workshop import grade"),
        ("cli", "from mathlib.plan import bill"),
        ("cli", "def f():\n    import yaml"),
        ("main", "from mathlib.cli.parser import main"),
        ("trials", "from mathlib.parallel import ddp"),
    ],
)
def test_the_rules_allow_a_right_one(here, source):
    assert not list(wrongs(here, source))


def test_modules_import_each_other_without_a_circle():
    arrows = {".".join(module_parts(path)): set() for path in FILES}
    for path in FILES:
        name = ".".join(module_parts(path))
        for other, at_top in imports(ast.parse(path.read_text("utf-8"))):
            inner = other.removeprefix("mathlib.")
            while inner and inner not in arrows:
                inner = inner.rpartition(".")[0]
            if at_top and other.startswith("mathlib.") and inner != name:
                arrows[name].add(inner)
    done = {""}
    while len(done - {""}) < len(arrows.keys() - {""}):
        free = {name for name, needs in arrows.items() if name not in done and needs <= done}
        assert free, f"a circle among {sorted(set(arrows) - done)}"
        done |= free


def test_no_leaf_name_stands_twice_among_formulas_and_runs():
    files = [p for p in FILES if p.parent.name != "plain"]  # the same mechanism, to be read
    leaves = [p.stem for p in files if room_of(module_parts(p)) in FORMULAS + RUNS]
    twice = {leaf for leaf in leaves if leaves.count(leaf) > 1 and leaf != "__init__"}
    assert not twice, f"{twice}: a formula is named by its quantity, a run by its mechanism"


@pytest.fixture(scope="module")
def python():
    """Run Python as a user's machine does; what it prints."""
    environment = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    environment |= {"PYTHONPATH": str(ROOT.parent)}

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


LIGHT = [
    ".".join(["mathlib", *module_parts(path)])
    for path in FILES
    if room_of(module_parts(path)) not in {*RUNS, "trials", "main"}
]


def test_nothing_heavy_is_loaded(python):
    out = python("-c", f"import sys, {', '.join(LIGHT)}; print(*sys.modules)")
    assert not HEAVY & {name.split(".")[0] for name in out.split()}


BASE = ("argparse", "errno", "locale", "numbers", "tomllib")
NEEDS = {  # a command: the rooms that its answer needs, and of the standard library what is more
    "params gpt2": ("cli compute", ""),
    "flops llama3-70b --train 15T": ("cli compute", ""),
    "memory llama2-7b --zero 3 --data 8": ("cli compute memory", ""),
    "kv llama3-70b --tokens 8k": ("cli memory", ""),
    "comm all-reduce --payload 1GB --ranks 8 --bandwidth 300GB/s": ("cli traffic", ""),
    "groups --world 64 --tensor 8": ("cli traffic", "gc"),
    "prove --tensor 2": ("cli prover schedule traffic", "collections dataclasses gc random"),
    "grade ring --start": (
        "cli prover schedule traffic workshop",
        "collections contextlib dataclasses gc heapq importlib inspect pkgutil random",
    ),
    "cost llama3-70b --train 15T --device h100-sxm --devices 8000": ("cli compute", ""),
    "time llama3-8b --cluster p5.48xlarge --data 8": ("cli compute memory plan", ""),
    "compare llama2-7b llama3-8b": ("cli compute memory", "json shlex"),
    "models": ("cli compute", ""),
    "devices": ("cli", ""),
    "where ring": ("cli", "json"),
    "schema": ("cli", "json"),
    "--version": ("cli", ""),
}


@pytest.mark.parametrize("line", NEEDS)
def test_a_command_loads_no_more_than_it_needs(line, python):
    """What takes time to start is what is imported; counted, since seconds know the neighbours."""
    rooms, modules = (set(words.split()) for words in NEEDS[line])
    code = f"import sys; from mathlib.cli.parser import main; main({line.split()})"
    loaded = set(python("-c", f"{code}; print(*sys.modules)").splitlines()[-1].split())
    own = {name for name in loaded if name.partition(".")[0] == "mathlib"}
    found = {name.split(".")[1] for name in own if name.count(".") == 2}
    assert found == rooms, f"{line} needs {rooms}, and {found} were loaded"
    needed = ", ".join(
        {*(BASE if line != "--version" else ("math", "numbers", "typing")), *modules}
    )
    base = python("-c", f"import sys, {needed}; print(*sys.modules)")
    more = loaded - own - set(base.split())
    assert not more, f"{more} take time to load"


def test_where_something_stands_is_not_read_from_the_code(python):
    """Chapters and modules are read once, by tools/map.py, and not whenever somebody asks."""
    listens = (
        "import sys; opened = []; "
        "sys.addaudithook(lambda event, of: opened.append(str(of[0])) if event == 'open' else 0); "
        "from mathlib.cli.parser import main; main(['where', 'ring']); "
        "kinds = ('.ipynb', '.md', '.json', 'comm.py'); "
        "print(*[name for name in opened if name.endswith(kinds)], sep='|')"
    )
    read = python("-c", listens).splitlines()[-1].split("|")
    assert [Path(name).name for name in read] == ["where.json"]
