"""Put a first cell into every chapter that installs the library: `python tools/colab_cell.py
<repository>`.

Colab opens a notebook alone, without the rest of the repository. Run on a copy that is pushed to
the branch `launch`; the chapters of the main branch stay as they are. Standard library only.
"""

import argparse
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = """# Installs the book's library where it is missing, on Colab for example.
from importlib.util import find_spec

if find_spec("mathlib") is None:
    %pip install --quiet "mathlib-measured[notebooks] @ git+{repository}@main"
"""


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
    first = next(i for i, c in enumerate(notebook["cells"]) if c["cell_type"] == "code")
    return {**notebook, "cells": [*notebook["cells"][:first], cell, *notebook["cells"][first:]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", help="its address, https://github.com/<owner>/<name>")
    repository = parser.parse_args().repository
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        notebook = with_first_cell(json.loads(path.read_text("utf-8")), repository)
        path.write_text(
            json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
