"""What the book lists fits its column: the code behind experiments, and what cells show."""

import ast
import inspect
import textwrap
from importlib import import_module

from pages import CHAPTERS, code_cells

from mathlib.show.experiments import registry

WIDE, BESIDE_A_NOTE = 88, 63


def behind_experiments():
    """(where it is listed, function, columns) for the code that an experiment unfolds."""
    for id, experiment in registry().items():
        for function in experiment.code:
            yield f"explore({id!r})", function, WIDE


def named(expression, names):
    """The object that an expression such as `ddp.DDP._send` means."""
    if isinstance(expression, ast.Name):
        return names[expression.id]
    return getattr(named(expression.value, names), expression.attr)


def imported(tree):
    """Names that a cell imports from the library, and what they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mathlib"):
            room = import_module(node.module)
            for alias in node.names:
                if not hasattr(room, alias.name):
                    import_module(f"{node.module}.{alias.name}")
                yield alias.asname or alias.name, getattr(room, alias.name)


def shown_by_cells():
    """(where it is listed, function, columns) for what chapters pass to source(...)."""
    for path in CHAPTERS:
        names = {}
        for cell in code_cells(path):
            lines = [line for line in cell.source.splitlines() if not line.startswith(("%", "!"))]
            tree = ast.parse("\n".join(lines))
            names |= dict(imported(tree))
            for call in ast.walk(tree):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "source":
                    columns = BESIDE_A_NOTE if call.keywords else WIDE
                    for argument in call.args:
                        assert not isinstance(argument, ast.Starred), f"{path.stem}: name them"
                        root = ast.unparse(argument).split(".")[0]
                        if root in names:  # else the cell's own, which the reader sees anyway
                            yield path.stem, named(argument, names), columns


def test_every_listing_fits_its_column():
    places = set()
    for where, function, columns in [*behind_experiments(), *shown_by_cells()]:
        code = textwrap.dedent(inspect.getsource(function)).splitlines()
        wide = [line for line in code if len(line) > columns]
        said = f"{where} lists {function.__qualname__}; at most {columns} columns:\n"
        assert not wide, said + "\n".join(wide)
        places.add(where)
    assert any(where.startswith("explore") for where in places)
    assert any(not where.startswith("explore") for where in places)
