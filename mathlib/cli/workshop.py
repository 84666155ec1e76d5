"""mathlib grade: a puzzle's task and start, a program graded, a folder of programs graded."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from mathlib.checks import InputError, one_of
from mathlib.cli import terminal
from mathlib.cli.registry import command
from mathlib.cli.text import columns, show, wrapped
from mathlib.cli.typed import Typed

if TYPE_CHECKING:
    from pathlib import Path

    from mathlib.workshop.grade import Report
    from mathlib.workshop.puzzle import Puzzle

PATIENCE = 120  # seconds for one program of a folder; a loop of its own lines ends long before


def grade_options(parser: ArgumentParser) -> None:
    parser.add_argument("puzzle", nargs="?", help="a name of --list")
    parser.add_argument("file", nargs="?", help="your program; without it, the task is shown")
    parser.add_argument("--start", action="store_true", help="prints the program to start from")
    parser.add_argument("--hint", metavar="1-3", type=int, help="shows one of three hints")
    parser.add_argument(
        "--real",
        metavar="N",
        type=int,
        help="runs a right program's tests for N ranks on real processes, too (needs PyTorch)",
    )
    parser.add_argument("--list", action="store_true", help="lists all puzzles")
    parser.add_argument(
        "--all",
        metavar="FOLDER",
        help="grades ring.py and the like in a folder and in each folder inside it",
    )


@command(
    "grade",
    "a program of your own for a puzzle of the workshop: right, or what is wrong with it",
    "grade --list",
    "grade ring",
    "grade ring --start",
    "grade ring --hint 1",
    options=grade_options,
)
def grade_command(args: Typed) -> None:
    if args.list:
        return list_puzzles(args)
    if args.all:
        return grade_folder(args)
    if not args.puzzle:
        raise InputError("no puzzle: expected a name of `mathlib grade --list`")
    from mathlib.workshop import grade

    puzzle = grade.find(args.puzzle)
    if not args.file:
        return show_task(args, puzzle)
    text, real = text_of(args.file), args.real
    report = grade.graded(args.puzzle, text)
    args.status = int(not report.right)
    said, data = report_words(puzzle, report), report_data(report)
    if real is not None and report.right:
        more, rows = really(args, text, real)
        said, data = f"{said}\n\n{more}", data | {"real": rows}
    show(args, said, data)


def really(args: Typed, text: str, ranks: int) -> tuple[str, list[dict[str, Any]]]:
    """The same on real processes, beside the virtual ranks."""
    from mathlib.workshop.real import on_processes

    found = on_processes(args.puzzle, text, ranks)
    args.status = int(any(one.wrong for one in found))
    rows = [
        {
            "says": one.says,
            "wrong": one.wrong or None,
            "sent": {"value": max(one.bytes, default=0), "unit": "byte"},
        }
        for one in found
    ]
    told = [
        f"{one.says}, on {ranks} processes: {one.wrong or 'the same results'}"
        + (f", {max(one.bytes):,} bytes of numbers sent by a rank" if one.bytes else "")
        for one in found
    ]
    return wrapped("\n".join(told)), rows


def text_of(file: str) -> str:
    """What a file says."""
    from pathlib import Path  # only a file needs it

    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", "") or "no text"
        raise InputError(f"{file}: {said}; `mathlib grade ring --start` prints a program") from None


def show_task(args: Typed, puzzle: "Puzzle") -> None:
    """What is to be written, or one thing of it."""
    data = {name: getattr(puzzle, name) for name in ("name", "title", "chapter", "grade", "task")}
    data |= {"task": " ".join(puzzle.sentences), "start": puzzle.start}
    data |= {"thread": puzzle.address or None}
    if args.start:
        return show(args, puzzle.start.rstrip(), data)
    from mathlib.workshop import words

    head = terminal.paint(puzzle.title, "strong")
    if args.hint is not None:
        hint = words.hint(puzzle, one_of("hint", args.hint, (1, 2, 3)))
        told = data | {"hint": puzzle.hints[args.hint - 1]}
        return show(args, f"{head}\n\n{wrapped(hint)}", told)
    notes = [wrapped(one) for one in words.notes(puzzle)]
    tests = wrapped("\n".join(words.tests(puzzle)))
    task = wrapped("\n".join(puzzle.sentences))
    show(args, "\n\n".join([head, task, *notes, puzzle.start, tests]), data)


def report_words(puzzle: "Puzzle", report: "Report") -> str:
    """Each test, and the verdict."""
    from mathlib.workshop import words

    verdict = report.first or "right"
    told = terminal.paint(wrapped(verdict), "good" if report.right else "bad")
    head = terminal.paint(puzzle.title, "strong")
    return "\n\n".join([head, columns(("test", "verdict", "took"), words.rows(report)), told])


def report_data(report: "Report") -> dict[str, Any]:
    """The same for programs."""
    from mathlib.workshop.puzzle import MEASURES

    def facts(values: dict[str, float]) -> dict[str, Any]:
        return {of: {"value": n, "unit": MEASURES[of][1]} for of, n in values.items()}

    tests = [
        {
            "says": one.says,
            "wrong": one.wrong or None,
            "took": facts(one.took),
            "most": facts({budget.of: budget.most for budget in one.budgets}),
        }
        for one in report.results
    ]
    first = report.first or None
    return {"puzzle": report.puzzle, "right": report.right, "first": first, "tests": tests}


def list_puzzles(args: Typed) -> None:
    """All, from the first grade on."""
    from mathlib.workshop import grade
    from mathlib.workshop.puzzle import GRADES

    every = grade.every()
    rows = [(one.name, GRADES[one.grade], one.chapter, one.title) for one in every]
    table = columns(("puzzle", "grade", "chapter", "what"), rows)
    names = ("name", "grade", "chapter", "title")
    show(args, table, {"puzzles": [{name: getattr(one, name) for name in names} for one in every]})


def grade_folder(args: Typed) -> None:
    """Every solution of a course: a program of its own for each, so that none stops the others."""
    from pathlib import Path

    from mathlib.workshop import grade

    folder, known = Path(args.all), grade.names()
    if not folder.is_dir():
        raise InputError(f"--all {folder}: expected a folder")
    files = sorted([*folder.glob("*.py"), *folder.glob("*/*.py")])
    named = [(path, path.stem.replace("_", "-")) for path in files]
    found = [(path, name) for path, name in named if name in known]
    if not found:
        raise InputError(f"--all {folder}: no file is called as a puzzle is, such as ring.py")
    data = [
        {"file": path.relative_to(folder).as_posix(), "puzzle": name, **alone(name, path)}
        for path, name in found
    ]
    args.status = int(not all(row["right"] for row in data))
    rows = [(d["file"], "right" if d["right"] else "wrong", d["first"] or "") for d in data]
    right = sum(row["right"] for row in data)
    left = [path.relative_to(folder).as_posix() for path, name in named if name not in known]
    more = f"; not called as a puzzle is: {', '.join(left)}" if left else ""
    table = columns(("file", "verdict", "what is wrong"), rows)
    show(
        args,
        f"{table}\n\n{wrapped(f'{right} of {len(data)} right{more}')}",
        {"solutions": data, "left_out": left},
    )


def alone(name: str, path: "Path") -> dict[str, Any]:
    """A program graded by a process of its own, in its words."""
    import json
    import subprocess
    import sys

    line = [sys.executable, "-m", "mathlib", "grade", name, str(path.resolve()), "--json"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {"right": False, "first": f"has not ended after {PATIENCE} s"}
    if done.returncode not in (0, 1):
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        return {"right": False, "first": lines[-1]}
    told = json.loads(done.stdout)
    return {"right": told["right"], "first": told["first"]}
