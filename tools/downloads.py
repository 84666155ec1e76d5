"""The notebooks that pages offer for download, in plain Markdown: `python tools/downloads.py
_build/html`.

With the repository's address, in the environment variable BOOK_REPOSITORY, each has a first cell
that installs the library.
"""

import argparse
import json
import os
from pathlib import Path

from colab_cell import with_first_cell
from plain import ROOT, contents, plain, written


def offered(path: Path, repository: str) -> str:
    """A chapter as a reader gets it."""
    notebook = plain(json.loads(path.read_text("utf-8")), contents.page(ROOT, path))
    return written(with_first_cell(notebook, repository) if repository else notebook)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    folder = parser.parse_args().site / "_sources"
    for path in contents.notebooks(ROOT):
        text = offered(path, os.environ.get("BOOK_REPOSITORY", ""))
        (folder / path.relative_to(ROOT)).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
