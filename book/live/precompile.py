"""Runs in Pyodide at build time: the libraries compiled, whole or only the modules that are loaded.

Byte code of other Pythons would not do; columns of the source are left out by how Python starts.
"""

import ast
import io
import json
import zipfile
from collections.abc import Container, Iterator
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash

FIRST_DAY = (1980, 1, 1, 0, 0, 0)


def compiled(archive: str) -> Iterator[tuple[str, bytes]]:
    """Every file of an archive by its name, modules as byte code."""
    with zipfile.ZipFile(archive) as old:
        for name in sorted(old.namelist()):
            data = old.read(name)
            if name.endswith(".py"):
                code = compile(data, name, "exec", dont_inherit=True, optimize=2)
                yield name + "c", bytes(_code_to_hash_pyc(code, source_hash(data), False))
            elif not name.endswith("/"):
                yield name, data


def is_in(loaded: Container[str] | None, name: str) -> bool:
    """Whether a file holds one of the modules; with None, every file is wanted."""
    module = name.removesuffix(".pyc").replace("/", ".").removesuffix(".__init__")
    return loaded is None or module in loaded


def stdlib(archive: str, loaded: Container[str] | None) -> bytes:
    """A zip, not compressed: the build packs the whole, and Python starts faster."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        for name, data in compiled(archive):
            if is_in(loaded, name):
                new.writestr(zipfile.ZipInfo(name, FIRST_DAY), data)
    return out.getvalue()


def library(archive: str, loaded: Container[str] | None) -> bytes:
    """One file that unpack.mjs takes apart; what is not code stays."""
    files = [
        (name, data)
        for name, data in compiled(archive)
        if not name.endswith(".pyc") or is_in(loaded, name)
    ]
    head = json.dumps([(name, len(data)) for name, data in files])
    return head.encode() + b"\n" + b"".join(data for _, data in files)


def late_imports(archive: str) -> list[str]:
    """What functions import when they are called, which no run at build time may reach."""
    with zipfile.ZipFile(archive) as sources:
        trees = [ast.parse(sources.read(n)) for n in sources.namelist() if n.endswith(".py")]
    functions = [f for tree in trees for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)]
    names: set[str] = set()
    for node in [node for function in functions for node in ast.walk(function)]:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return sorted(names)
