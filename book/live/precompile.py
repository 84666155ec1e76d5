"""Runs in Pyodide at build time: the libraries compiled, whole or only the modules that are loaded.

Byte code of other Pythons would not do; columns of the source are left out by how Python starts.
"""

import ast
import io
import json
import re
import zipfile
from collections.abc import Container, Iterator
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash

INDENTED = re.compile(rb"^[ \t]+(?:import|from)\b", re.M)
SHOWN = re.compile(r"/workshop/(puzzles|clinic)/")  # a puzzle's start is its own source
FIRST_DAY = (1980, 1, 1, 0, 0, 0)


def compiled(archive: str, loaded: Container[str] | None) -> Iterator[tuple[str, bytes]]:
    """The files of an archive by their names, the modules that are loaded as byte code."""
    with zipfile.ZipFile(archive) as old:
        for name in sorted(old.namelist()):
            data = old.read(name)
            if name.endswith(".py"):
                if not is_in(loaded, name):
                    continue
                if SHOWN.search(name):
                    yield name, data
                    continue
                says = "/prover/faults_" in name  # a fault's docstring is shown
                code = compile(data, name, "exec", dont_inherit=True, optimize=1 if says else 2)
                yield name + "c", bytes(_code_to_hash_pyc(code, source_hash(data), False))
            elif not name.endswith("/"):
                yield name, data


def is_in(loaded: Container[str] | None, name: str) -> bool:
    """Whether a file holds one of the modules; with None, every one is wanted."""
    module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return loaded is None or module in loaded


def stdlib(archive: str, loaded: Container[str] | None) -> bytes:
    """A zip, not compressed: the build packs the whole, and Python starts faster."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name, data in compiled(archive, loaded):
            if name.endswith(".pyc"):
                new.writestr(zipfile.ZipInfo(name, FIRST_DAY), data)
    return out.getvalue()


def library(archive: str, loaded: Container[str] | None, base: str = "") -> bytes:
    """One file that unpack.mjs takes apart; what is not code stays, unless the base has it."""
    there = zipfile.ZipFile(base).namelist() if base else ()
    files = [(name, data) for name, data in compiled(archive, loaded) if name not in there]
    head = json.dumps([(name, len(data)) for name, data in files])
    return head.encode() + b"\n" + b"".join(data for _, data in files)


def late_imports(archive: str) -> list[str]:
    """What functions import when they are called, which no run at build time may reach."""
    with zipfile.ZipFile(archive) as files:
        sources = [files.read(name) for name in files.namelist() if name.endswith(".py")]
    trees = [ast.parse(source) for source in sources if INDENTED.search(source)]
    functions = [f for tree in trees for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)]
    names: set[str] = set()
    for node in [node for function in functions for node in ast.walk(function)]:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return sorted(names)
