"""Make every chapter one that Binder and Colab can show and run: `python tools/colab_cell.py
<repository>`.

Colab opens a notebook alone, without the rest of the repository: a first cell fetches it, installs
the library, and goes to where chapters find what was recorded.
Run on a copy that is pushed to the branch `launch`; the chapters of the main branch stay as they
are.
"""

import argparse
import json

from plain import ROOT, contents, plain, written

SOURCE = """# Fetches the book and installs its library where it is missing, on Colab for example.
from importlib.util import find_spec
from pathlib import Path

if find_spec("mathlib") is None:
    !git clone --quiet --depth 1 --branch main {repository} book
    %pip install --quiet "./book[notebooks]"
if Path("book/chapters").exists():
    %cd -q book/chapters
"""


def folded(cell: dict) -> dict:
    """A cell as Colab folds it: code by a key of its own, and no output; an answer's has to run."""
    hidden = cell["metadata"].get("jupyter", {})
    if not hidden:
        return cell
    outputs = [] if "outputs_hidden" in hidden else cell["outputs"]
    return {**cell, "outputs": outputs, "metadata": {**cell["metadata"], "cellView": "form"}}


def with_first_cell(notebook: dict, repository: str) -> dict:
    """The notebook with one more cell, before its first code cell."""
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": "install",
        "metadata": {},
        "outputs": [],
        "source": SOURCE.format(repository=repository).rstrip().splitlines(keepends=True),
    }
    cells = [folded(c) for c in notebook["cells"]]
    first = next(i for i, c in enumerate(cells) if c["cell_type"] == "code")
    return {**notebook, "cells": [*cells[:first], cell, *cells[first:]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", help="its address, https://github.com/<owner>/<name>")
    repository = parser.parse_args().repository
    for path in contents.notebooks(ROOT):
        notebook = plain(json.loads(path.read_text("utf-8")), contents.page(ROOT, path))
        path.write_text(written(with_first_cell(notebook, repository)), encoding="utf-8")


if __name__ == "__main__":
    main()
