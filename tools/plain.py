"""Chapters for JupyterLab, Binder and Colab, which know no roles and no directives of the site:
`python tools/plain.py lab`.

A copy says in plain Markdown what the page says: "Figure 4.2" for a role, a bold title for a
directive. Answers of problems unfold. Numbers are those of the site. Code is untouched. A copy is
written where its chapter is newer; the one before, which may be a reader's, moves to `earlier/`.
`contents.ipynb` links to all in reading order.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from functools import cache, partial
from html import escape
from pathlib import Path
from posixpath import relpath

from pybtex.database import Entry, parse_file

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))
import contents  # noqa: E402
from figures import before, captioned, places  # noqa: E402

ROLE = re.compile(r"\{(cite|doc|eq|fig|ref|term)\}`([^`]*)`")
TITLED = re.compile(r"(.*?)\s*<(.*)>", re.S)  # words <target>
EQUATION = re.compile(r"\$\$((?:(?!\$\$).)*?)\n?\$\$ \((eq-[\w-]+)\)", re.S)
EXERCISE = re.compile(r"```\{exercise\}\n:label: (\S+)\n(.*?)\n```", re.S)
ADMONITION = re.compile(r":::\{admonition\} ([^\n]*)\n:class: (\S+)\n(.*?)\n:::", re.S)
SOLUTION = re.compile(r"```\{solution-(start|end)\}(?: (\S+)\n:class: dropdown)?\n```")
LABEL = re.compile(r"^\([\w-]+\)=\n", re.M)
UNFOLDS = "<details>\n<summary>{}</summary>\n\n{}\n\n</details>"
IN_CODE = "The next cell works it out."
MOVES = "Controls appear once you run this cell and those above it."
HOW = """A grey bar with three dots is folded code: click it to read it. *Run*, *Run All Cells*
computes a chapter anew, in a minute or a few, and gives its experiments their controls."""


def sources(path: Path) -> list[str]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


@cache
def numbers() -> dict[str, str]:
    """Of every equation, exercise and figure of the book, as the site gives them."""
    found = {name: number for name, (_, number) in places(ROOT).items()}
    for path in contents.notebooks(ROOT):
        text = "\n\n".join(sources(path))
        chapter = before(ROOT, contents.page(ROOT, path))
        for labels in (re.findall(r"\$\$ \((eq-[\w-]+)\)", text), EXERCISE.findall(text)):
            names = [label if isinstance(label, str) else label[0] for label in labels]
            found |= {name: f"{chapter}{n}" for n, name in enumerate(names, 1)}
    return found


@cache
def papers() -> dict[str, Entry]:
    return dict(parse_file(str(ROOT / "book/references.bib")).entries)


def paper(key: str) -> str:
    """[Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980)"""
    entry = papers()[key]
    last = [str(p.rich_last_names[0]) for p in entry.persons["author"]]
    others = len(last) > 2 or "others" in last
    words = f"{last[0]} et al." if others else " and ".join(last)
    fields = entry.fields
    address = fields.get("url") or (f"https://doi.org/{fields['doi']}" if "doi" in fields else "")
    address = f"https://arxiv.org/abs/{fields['eprint']}" if "eprint" in fields else address
    said = f"{words}, {fields['year']}"
    return f"[{said}]({address})" if address else said


def said(page: str, role: re.Match[str]) -> str:
    """What a role says on a page."""
    kind, inside = role.groups()
    titled = TITLED.fullmatch(inside)
    words, target = titled.groups() if titled else (inside, inside)
    if kind == "cite":
        return f"({', '.join(paper(key.strip()) for key in inside.split(','))})"
    if kind in ("eq", "fig"):
        return f"({numbers()[inside]})" if kind == "eq" else f"Figure {numbers()[inside]}"
    if kind == "doc":
        words = words if titled else contents.title(ROOT, target[1:])
        notebook = f"[{words}]({relpath(target, f'/{page}/..')}.ipynb)"
        return notebook if target.startswith("/chapters/") else words
    return words if titled or kind == "term" else f"Exercise {numbers()[inside]}"


def admonition(found: re.Match[str]) -> str:
    title, kind, body = found.groups()
    if kind == "dropdown":
        return UNFOLDS.format(re.sub(r"`(.+?)`", r"<code>\1</code>", escape(title, False)), body)
    return "\n".join(f"> {line}".rstrip() for line in f"**{title}**\n\n{body}".split("\n"))


def without_directives(text: str, page: str = "chapters/compute") -> str:
    """Markdown without any directive but the borders of solutions."""
    text = EQUATION.sub(lambda m: f"$${m[1]} \\tag{{{numbers()[m[2]]}}}\n$$", text)
    text = ADMONITION.sub(admonition, text)
    text = EXERCISE.sub(lambda m: f"**Exercise {numbers()[m[1]]}**\n{m[2]}", text)
    return ROLE.sub(partial(said, page), LABEL.sub("", text))


def answers(text: str, begun: str) -> Iterator[str]:
    """Text in pieces, each piece of a solution folded; `begun` names one of a cell before."""
    opened, at = begun, 0
    for border in [*SOLUTION.finditer(text), None]:
        piece = text[at : border.start() if border else len(text)].strip()
        if opened and (piece or opened != begun):
            more = ", continued" if opened == begun else ""
            title = f"Answer to exercise {numbers()[opened]}{more}"
            yield UNFOLDS.format(title, piece or IN_CODE)
        elif piece:
            yield piece
        if border:
            opened, at = border[2] or "", border.end()


def last_opened(text: str, begun: str) -> str:
    """The solution that is open at the end of some text."""
    borders = SOLUTION.findall(text)
    return borders[-1][1] if borders else begun


def below(cell: dict, first: int, chapter: str) -> tuple[list[dict], int]:
    """A cell below a cell's pictures, with the numbers that the text calls them by, and with what
    brings an experiment to life.
    """
    html = ["".join(o.get("data", {}).get("text/html", "")) for o in cell["outputs"]]
    after = first + sum(len(captioned(one)) for one in html)
    lines = [" and ".join(f"Figure {chapter}{n}" for n in range(first, after))]
    lines += [MOVES for one in html if "data-mlx=" in one]
    said = "\n\n".join(f"*{line}*" for line in lines if line)
    made = {"cell_type": "markdown", "id": f"{cell['id']}-below", "metadata": {}}
    return [{**made, "source": said.splitlines(keepends=True)}] if said else [], after


def plain(notebook: dict, page: str) -> dict:
    """The notebook with Markdown that every frontend shows; code and outputs as they are."""
    cells, opened, figure, chapter = [], "", 1, before(ROOT, page)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            said, figure = below(cell, figure, chapter)
            cells += [cell, *said]
            continue
        text = without_directives("".join(cell["source"]), page)
        pieces = "\n\n".join(answers(text, opened))
        opened = last_opened(text, opened)
        if pieces:
            cells.append({**cell, "source": pieces.splitlines(keepends=True)})
    return {**notebook, "cells": cells}


def written(notebook: dict) -> str:
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def copy(path: Path, target: Path, page: str) -> None:
    """Write a chapter's copy if it is missing or older; the one before is kept."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        if target.stat().st_mtime_ns >= path.stat().st_mtime_ns:
            return
        (target.parent / "earlier").mkdir(exist_ok=True)
        target.replace(target.parent / "earlier" / target.name)
    notebook = json.loads(path.read_text("utf-8"))
    target.write_text(written(plain(notebook, page)), encoding="utf-8")


def entry(page: str) -> str:
    """- [9 ZeRO: one copy of everything](zero.ipynb)"""
    called = f"{contents.number(ROOT, page)} {contents.title(ROOT, page)}".strip()
    return f"- [{called}]({relpath(page, 'chapters')}.ipynb)"


def contents_cell() -> dict:
    """Links to every notebook, part by part."""
    lines = ["# Transformer Math, Measured", HOW]
    for part in contents.parts(ROOT):
        links = [entry(page) for page in contents.pages_of(part) if page.startswith("chapters/")]
        lines += [f"## {part['caption']}", "\n".join(links)] if links else []
    source = "\n\n".join(lines).splitlines(keepends=True)
    return {"cell_type": "markdown", "id": "contents", "metadata": {}, "source": source}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder, paths = parser.parse_args().folder, contents.notebooks(ROOT)
    for path in paths:
        copy(path, folder / path.relative_to(ROOT / "chapters"), contents.page(ROOT, path))
    first = json.loads(paths[0].read_text("utf-8"))
    made = written({**first, "cells": [contents_cell()]})
    (folder / "contents.ipynb").write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
