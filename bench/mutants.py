"""Break the library on purpose, one small change at a time, and count what its tests notice.

    python bench/mutants.py traffic memory             every change in two rooms (long)
    python bench/mutants.py traffic --sample 40        some of them; --seed picks others
    python bench/mutants.py parallel.ddp --list        only say what would be changed

Each mutant is tried in a copy of the tree by the tests that mirror its module, and by published
numbers, refusals and agreement where they name it. A red test, or one that does not end, has caught
it. What survives is printed and kept in bench/results/. README.md says how to read it.
"""

import argparse
import ast
import contextlib
import datetime
import functools
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EQUAL = Path(__file__).with_name("mutants_equal.toml")
ROOMS = ["launch", "meters", "parallel", "memory", "traffic", "schedule"]
NOT_COPIED = shutil.ignore_patterns(".*", "_build", "node_modules", "__pycache__", "results")
OTHER = {  # what takes the place of an operator
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},  # codespell:ignore notin
    **{ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult},
}
SILENT = (ast.JoinedStr, ast.Import, ast.ImportFrom)  # texts for people, and what cannot be wrong


class Mutant(NamedTuple):
    """A change of one place of a module."""

    module: str  # traffic.comm
    line: int
    text: str  # of that line
    before: str
    after: str
    start: int  # bytes of the source that `after` replaces
    end: int

    @property
    def name(self) -> str:
        return f"{self.module}: {self.text} | {self.before} -> {self.after}"


def changed(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of the node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """What could stand in a node's place, and mean something else."""
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in OTHER:
        yield changed(node, op=OTHER[type(node.op)]())
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            yield changed(node, ops=[*node.ops[:i], OTHER[type(op)](), *node.ops[i + 1 :]])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1)
    if isinstance(node, ast.IfExp):
        yield changed(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Call):
        yield from other_calls(node)
    if isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(None)
    stored = isinstance(node, ast.Assign) and not isinstance(node.targets[0], (ast.Name, ast.Tuple))
    spoken = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    if stored or spoken or isinstance(node, (ast.AugAssign, ast.Raise, ast.Break, ast.Continue)):
        yield ast.Pass()


def other_calls(call: ast.Call) -> Iterator[ast.Call]:
    """Two arguments in the wrong order; a keyword argument, such as group=, forgotten."""
    either_way = ast.unparse(call.func) in ("max", "min", "math.isclose")
    if len(call.args) > 1 and not either_way and ast.dump(call.args[0]) != ast.dump(call.args[1]):
        yield changed(call, args=[call.args[1], call.args[0], *call.args[2:]])
    for i, keyword in enumerate(call.keywords):
        if keyword.arg and keyword.arg != "strict":  # zip's is an assertion
            yield changed(call, keywords=call.keywords[:i] + call.keywords[i + 1 :])


def places(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes whose change a test could notice: no annotation, decorator, message or docstring, nor
    zip's strict, which is an assertion.
    """
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "exc"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, SILENT):
                yield from places(child)


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a file that Python accepts."""
    source = path.read_bytes()
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    begins = [sum(map(len, lines[:i])) for i in range(len(lines) + 1)]
    module = named(path)
    found = []
    for node in places(tree):
        for other in variants(node):
            start = begins[node.lineno - 1] + node.col_offset
            end = begins[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(ast.fix_missing_locations(other))
            if isinstance(node, ast.expr):  # a bare b - c would be torn apart in a * (b + c)
                text = f"({text})"
            before = " ".join(source[start:end].decode().split())
            line = lines[node.lineno - 1].decode().strip()
            found.append(Mutant(module, node.lineno, line, before, text, start, end))
    return [mutant for mutant in found if accepted(broken(source, mutant))]


def broken(source: bytes, mutant: Mutant) -> bytes:
    return source[: mutant.start] + mutant.after.encode() + source[mutant.end :]


def accepted(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def tests_of(module: str) -> tuple[list[str], list[str]]:
    """The module's own tests (its room's, where it has none), and others that would notice: what
    holds for many modules and names this one; of launch, which is one machine, the room's.
    """
    room, _, leaf = module.rpartition(".")
    tests = ROOT / "tests"
    of_room = sorted((tests / room.replace(".", "/")).glob("*.py"))
    mirror = [f for f in of_room if f.name.startswith(f"test_{leaf}")] or of_room
    named = rf"\b{room}\.{leaf}\b|mathlib\.{room} import [\w\s,(]*\b{leaf}\b"
    general = [*sorted(tests.glob("rules/test_*.py")), *sorted(tests.glob("agreement/test_*.py"))]
    others = [f for f in general if re.search(named, f.read_text("utf-8"))]
    if any(re.search(rf"\b{leaf}\.", f.read_text("utf-8")) for f in tests.glob("published/*.csv")):
        others.insert(0, tests / "published" / "test_published.py")
    if room == "launch":
        others += [f for f in of_room if f not in mirror]
    own, more = ([str(f.relative_to(ROOT)) for f in files] for files in (mirror, others))
    return own, more


@functools.cache
def warm(tree: Path) -> subprocess.Popen:
    """The process that runs this tree's tests: it imports torch once, and not for every mutant."""
    given = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("warm.py"))],
        cwd=tree,
        env=given,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def outcome(tree: Path, tests: list[str], limit: float, server: bool = False) -> str:
    """How the tests end in this tree: passed, failed, or endless."""
    process = warm(tree)
    assert process.stdin and process.stdout
    print(json.dumps({"tests": tests, "server": server}), file=process.stdin, flush=True)
    pid = int(process.stdout.readline())
    ended: list = []
    try:
        ended, _, _ = select.select([process.stdout], [], [], limit)
    finally:  # after Ctrl-C too
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
    code = int(process.stdout.readline())
    return ("passed" if code == 0 else "failed") if ended else "endless"


class Green:
    """The seconds that files of tests take in a tree where nothing is broken, each asked for once;
    none of them may be red.
    """

    def __init__(self, tree: Path):
        self.tree, self.seconds = tree, dict[str, float]()

    def __call__(self, file: str, server: bool) -> float:
        if file not in self.seconds:
            begin = time.monotonic()
            if outcome(self.tree, [file], 1800, server) != "passed":
                sys.exit(f"{file} is not green without any change")
            self.seconds[file] = time.monotonic() - begin
        return self.seconds[file]


def tried(
    mutants: list[Mutant], tree: Path, only_own: bool = False
) -> Iterator[tuple[Mutant, str]]:
    """Each mutant and how the tests end with it: its own, the quickest first, then the others."""
    green = Green(tree)
    for mutant in mutants:
        path = tree / f"mathlib/{mutant.module.replace('.', '/')}.py"
        server = not mutant.module.startswith("launch.")  # which is itself what its tests try
        own, others = tests_of(mutant.module)
        own.sort(key=functools.partial(green, server=server))
        end = "passed"
        for file in own if only_own else own + others:
            limit = 20 + 3 * green(file, server)
            source = path.read_bytes()
            path.write_bytes(broken(source, mutant))
            try:
                end = outcome(tree, [file], limit, server)
            finally:
                path.write_bytes(source)
            if end != "passed":
                break
        yield mutant, end


def all_tried(mutants: list[Mutant], only_own: bool = False) -> list[tuple[Mutant, str]]:
    """Try them in a copy of the tree and say how far it is; Ctrl-C ends it with what is there."""
    results: list[tuple[Mutant, str]] = []
    with tempfile.TemporaryDirectory() as place:
        tree = Path(shutil.copytree(ROOT, Path(place) / "tree", ignore=NOT_COPIED))
        try:
            for mutant, end in tried(mutants, tree, only_own):
                results.append((mutant, end))
                caught = sum(end != "passed" for _, end in results)
                print(f"\r{len(results)} of {len(mutants)}, {caught} caught", end="", flush=True)
                if end == "passed":
                    print(f"\n  nobody noticed line {mutant.line} of {mutant.name}", flush=True)
        except KeyboardInterrupt:
            print("\nstopped; what has been tried counts", end="")
        finally:
            warm(tree).kill()
    print()
    return results


def modules() -> list[Path]:
    """The files of all rooms, folders inside them too."""
    return [p for room in ROOMS for p in sorted((ROOT / "mathlib" / room).rglob("[!_]*.py"))]


def named(path: Path) -> str:
    """room.module"""
    return ".".join(path.relative_to(ROOT / "mathlib").with_suffix("").parts)


def chosen(wanted: list[str], sample: int, seed: int, skip: int = 0) -> list[Mutant]:
    """Mutants of the named rooms or modules, less those known to change nothing, in random order:
    if somebody stops the run, what has been tried is a sample as well. Each mutant draws its own
    lot, so that the order stays when other lines change.
    """
    names = wanted or ROOMS
    files = [p for p in modules() if any(f"{named(p)}.".startswith(f"{name}.") for name in names)]
    equal = {one["mutant"] for one in tomllib.loads(EQUAL.read_text("utf-8")).get("equal", [])}
    every = [m for path in files for m in mutants_of(path) if m.name not in equal]
    every.sort(key=lambda mutant: random.Random(f"{seed} {mutant.name}").random())
    return every[skip:][: sample or None]


def report(results: list[tuple[Mutant, str]], **facts: int) -> dict[str, dict]:
    """By module: how many were tried and caught, and what no test noticed."""
    found = {}
    for module in sorted({mutant.module for mutant, _ in results}):
        ends = [(mutant, end) for mutant, end in results if mutant.module == module]
        left = [f"line {mutant.line}: {mutant.name}" for mutant, end in ends if end == "passed"]
        n, caught = len(ends), len(ends) - len(left)
        endless = sum(end == "endless" for _, end in ends)
        score = {"tried": n, "caught": caught, "endless": endless, "score": round(caught / n, 3)}
        found[module] = {**score, **facts, "survivors": left}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("where", nargs="*", help=f"rooms or modules; all of {', '.join(ROOMS)}")
    parser.add_argument("--sample", type=int, default=0, help="how many; all without it")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many of those")
    parser.add_argument(
        "--own",
        action="store_true",
        help="the modules' own tests alone: quicker, never more caught",
    )
    parser.add_argument("--list", action="store_true", help="only say what would be changed")
    choice = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` ends it as Ctrl-C does
    mutants = chosen(choice.where, choice.sample, choice.seed, choice.skip)
    if not mutants:
        parser.error(
            f"where = {' '.join(choice.where)}: expected rooms ({', '.join(ROOMS)}) or modules"
        )
    if choice.list:
        return print(*(f"{m.line:>4} {m.name}" for m in mutants), sep="\n")
    facts = {"sample": choice.sample, "seed": choice.seed, "skip": choice.skip, "own": choice.own}
    keep(report(all_tried(mutants, choice.own), **facts))


def keep(found: dict[str, dict]) -> None:
    """Print the scores and write them down beside those of other modules of the same day."""
    for name, one in found.items():
        print(f"{name:<28} {one['caught']:>4} of {one['tried']:>4} caught  {one['score']:.0%}")
    date = datetime.date.today().isoformat()
    file = ROOT / "bench/results" / f"mutants-{date}.json"
    file.parent.mkdir(exist_ok=True)
    before = json.loads(file.read_text("utf-8"))["modules"] if file.exists() else {}
    kept = {"date": date, "modules": before | found}
    file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"kept in {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
