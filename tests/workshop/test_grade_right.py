"""Right programs, each built in another way: all of them pass, and no two are the same."""

import ast
from pathlib import Path

import pytest
from solutions import assert_right

from mathlib.workshop import grade

FOLDER = Path(__file__).parent / "right"
PIECES = ("save", "load")  # the two programs of a checkpoint


def text_of(puzzle):
    """A file of right programs, without imports: a program finds its names."""
    lines = (FOLDER / f"{puzzle.replace('-', '_')}.py").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("from mathlib.workshop."))


def programs(puzzle):
    """The names that stand in a puzzle's file, and the line that makes each the program."""
    nodes = ast.parse(text_of(puzzle)).body
    names = [n.name for n in nodes if isinstance(n, ast.AsyncFunctionDef) and n.name[0] != "_"]
    if puzzle != "checkpoint":
        return {name: f"program = {name}" for name in names}
    kinds = [name.removeprefix("save_") for name in names if name.startswith("save_")]
    return {kind: "\n".join(f"{piece} = {piece}_{kind}" for piece in PIECES) for kind in kinds}


PUZZLES = [one.name for one in grade.every() if not one.thread]
EVERY = [(puzzle, name) for puzzle in PUZZLES for name in programs(puzzle)]


@pytest.mark.parametrize(("puzzle", "name"), EVERY)
def test_a_right_program_passes(puzzle, name):
    assert_right(puzzle, f"{text_of(puzzle)}\n{programs(puzzle)[name]}\n")


@pytest.mark.parametrize("puzzle", PUZZLES)
def test_there_are_five_with_the_reference_and_no_two_are_alike(puzzle):
    tree = ast.parse(f"{text_of(puzzle)}\n{grade.find(puzzle).solution}")
    functions = [node for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
    bodies = {ast.dump(ast.Module(node.body, [])) for node in functions}
    assert len(programs(puzzle)) >= 4 and len(bodies) == len(functions)
