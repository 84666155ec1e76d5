"""How large each chapter is: `tools/sizes.py [CHAPTER ...]`.

words     visible ones, in markdown, without problems, formulas and the lines of directives
px        height of the page at a width of 1280, where the site is built (`make html`)
cells     of code; open and folded: their lines
globals   names that the cells bind for all later ones
far       names that a cell reads and that were bound more than FAR cells of code before it
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "tests/helpers", "book/_ext")]
import contents  # noqa: E402

FAR = 20  # cells of code
HEADS = (
    *("words", "px", "cells", "open", "folded", "defs", "asserts", "globals", "far"),
    *("pictures", "problems"),
)
FOLDED = {"hide-input", "remove-input"}
NO_WORDS = re.compile(
    r"^\s*(?:```|:::|:[a-z]+:)[^\n]*$|\$\$[^$]*\$\$|\$[^$\n]+\$|<!--.*?-->",
    re.MULTILINE | re.DOTALL,
)
ROLE = re.compile(r"\{[a-z:]+\}`([^`<]*)(?:<[^>]*>)?`")
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)


def sizes(path: Path) -> dict[str, int]:
    """Of one chapter, by HEADS, but for its height."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    lines = {True: 0, False: 0}
    for cell in code:
        lines[folded(cell)] += len("".join(cell["source"]).splitlines())
    trees = [ast.parse("".join(cell["source"])) for cell in code]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    bound, far = names(trees)
    return {
        "words": len(without_problems(text).split()),
        "cells": len(code),
        "open": lines[False],
        "folded": lines[True],
        "defs": sum(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in nodes),
        "asserts": sum(isinstance(node, ast.Assert) for node in nodes),
        "globals": len(bound),
        "far": far,
        "pictures": sum(json.dumps(cell["outputs"]).count("<figure") for cell in code),
        "problems": text.count("```{exercise}"),
    }


def folded(cell: dict) -> bool:
    return bool(FOLDED & set(cell["metadata"].get("tags", [])))


def without_problems(text: str) -> str:
    """What is read: the sections but that of the problems, as words."""
    start, *parts = SECTION.split(text)
    kept = [start]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        kept += [] if title == "Problems" else [title, body]
    return NO_WORDS.sub(" ", ROLE.sub(r"\1", "\n".join(kept)))


def names(trees: list[ast.Module]) -> tuple[dict[str, int], int]:
    """Names that cells bind, with the cell that did last; how many are read from far."""
    bound: dict[str, int] = {}
    far = 0
    for i, tree in enumerate(trees):
        reads = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & bound.keys()
        far += sum(i - bound[name] > FAR for name in reads)
        bound |= dict.fromkeys(binds(tree), i)
    return bound, far


def binds(tree: ast.Module) -> Iterator[str]:
    """Names of a cell that later cells see, imports apart."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield statement.name
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def heights(chapters: list[Path]) -> dict[Path, int]:
    """Of the built pages; none where there is no site or no browser."""
    from browser import flags, installed
    from pages import SITE, quiet
    from playwright.sync_api import sync_playwright

    built = {path: SITE / path.relative_to(ROOT).with_suffix(".html") for path in chapters}
    if not installed() or not all(page.exists() for page in built.values()):
        return {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed(), args=flags())
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        found = {}
        for path, file in built.items():
            page.goto(file.as_uri())
            quiet(page)
            found[path] = page.evaluate("document.documentElement.scrollHeight")
        browser.close()
    return found


def named(path: Path) -> str:
    return f"trials/{path.stem}" if path.parent.name == "trials" else path.stem


def main() -> None:
    chapters = [Path(name).resolve() for name in sys.argv[1:]] or contents.notebooks(ROOT)
    tall = heights(chapters)
    print(f"{'chapter':20}" + "".join(f"{head:>9}" for head in HEADS))
    for path in chapters:
        found: dict[str, object] = {"px": tall.get(path, ""), **sizes(path)}
        print(f"{named(path):20}" + "".join(f"{found[head]:>9}" for head in HEADS))


if __name__ == "__main__":
    main()
