"""Small tables as the last line of a cell."""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from mathlib.checks import InputError


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
        return f"{value:,.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> Shown:
    """A table: the first column names the row; numbers get three decimals, anything else is printed
    as it is.
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
    return Shown(_html_table(lines, caption), words)


def _html_table(lines: Sequence[Sequence[str]], caption: str) -> str:
    head, *rows = lines
    top = "".join(f'<th scope="col">{escape(word)}</th>' for word in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<table class="mlx-table">{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    )


def _columns(lines: Sequence[Sequence[str]]) -> str:
    """The same table as text, every column as wide as its longest cell."""
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip()
        for line in lines
    )


def source(*functions: Callable[..., Any]) -> Shown:
    """The library's own code, as it stands; methods without their class's indentation."""
    code = "\n\n".join(
        textwrap.dedent(inspect.getsource(function)).rstrip() for function in functions
    )
    return Shown(f'<pre tabindex="0"><code>{escape(code)}</code></pre>', code)
