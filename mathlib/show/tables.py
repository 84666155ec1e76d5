"""Small tables as the last line of a cell."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from mathlib.checks import InputError
from mathlib.show import says


class Shown:
    """Ready HTML, with the same content in words beside it."""

    def __init__(self, html: str, words: str):
        self._html, self._words = html, words

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return self._words


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return says.cell(value)
    return f"{value:,}" if isinstance(value, int) else says.typeset(str(value))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> Shown:
    """A table: the first column names the row; measured numbers get three digits, whole ones
    all of theirs.
    """
    for row in rows:
        if len(row) != len(head):
            raise InputError(
                f"row = {list(row)!r}: expected {len(head)} cells, one for each of {list(head)}"
            )
    lines = [list(head), *([_cell(value) for value in row] for row in rows)]
    words = _columns(lines)
    if caption:
        words = f"{caption}\n{words}"
    return Shown(html_table(lines, caption), words)


def _figures(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers, with or without units, rather than words."""
    return all(re.match(r"[-−<$( ]*\d|[-–—∞]?$|(never|none)$", cell) for cell in cells)


def html_table(lines: Sequence[Sequence[str]], caption: str, kind: str = "mlx-table") -> str:
    """Head and rows as HTML: columns of numbers stand right with their points in one line, words
    left.
    """
    head, *rows = lines
    columns = [says.aligned(column) for column in zip(*rows, strict=True)]
    sides = ["" if _figures(column) else ' class="mlx-words"' for column in columns]
    sides = (sides or [""] * len(head))[1:]
    top = f'<th scope="col">{says.html(head[0])}</th>' + "".join(
        f'<th scope="col"{side}>{says.html(word)}</th>'
        for word, side in zip(head[1:], sides, strict=True)
    )
    body = ""
    for first, *rest in zip(*columns, strict=True):
        cells = "".join(
            f"<td{side}>{says.html(cell)}</td>" for cell, side in zip(rest, sides, strict=True)
        )
        body += f'<tr><th scope="row">{says.html(first)}</th>{cells}</tr>'
    said = f"<caption>{says.html(caption)}</caption>" if caption else ""
    return f'<table class="{kind}">{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _columns(lines: Sequence[Sequence[str]]) -> str:
    """The same table as text, every column as wide as its longest cell."""
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip()
        for line in lines
    )


def _file(function: Callable[..., Any]) -> str:
    """Where the library keeps a function: mathlib/parallel/ddp.py; nothing for a notebook's own."""
    module = getattr(function, "__module__", "") or ""
    return module.replace(".", "/") + ".py" if module.startswith("mathlib.") else ""


def code_of(functions: Iterable[Callable[..., Any]]) -> str:
    """The library's own code as it stands; methods without their class's indentation."""
    return "\n\n".join(textwrap.dedent(inspect.getsource(f)).rstrip() for f in functions)


def source(*functions: Callable[..., Any], note: str = "") -> Shown:
    """The library's own code under its file's name; a note stands beside it, or below."""
    html, words = "", []
    for file, group in groupby(functions, _file):
        code = code_of(group)
        name = f'<p class="mlx-file">{file}</p>' if file else ""
        listing = f'<pre tabindex="0"><code>{escape(code)}</code></pre>'
        html += f'<div class="mlx-listing">{name}{listing}</div>'
        words.append(code)
    if note:
        beside = f'<p class="mlx-beside">{escape(note)}</p>'
        html = f'<div class="mlx-noted"><div>{html}</div>{beside}</div>'
        words.append(note)
    return Shown(html, "\n\n".join(words))
