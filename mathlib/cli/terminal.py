"""How an answer looks where it is read: as wide as the terminal, with colour; plain when piped."""

import os
import sys
from collections.abc import Sequence

PLAIN = 10**6  # columns of what is no terminal
STYLES = {"strong": "1", "good": "32", "bad": "31", "quiet": "2"}


def is_terminal() -> bool:
    """Whether somebody reads along."""
    return sys.stdout.isatty()


def width() -> int:
    """Columns there are."""
    if not is_terminal():
        return PLAIN
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def paint(text: str, style: str) -> str:
    """Text in a style of a terminal that has colours and was not asked to leave them out."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not text or not is_terminal():
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def kept_columns(wide: Sequence[int], there: int) -> int:
    """How many columns of a table stand side by side, the first two at least."""
    taken, kept = 0, 0
    for size in wide:
        taken += size + (2 if kept else 0)
        if taken > there and kept >= 2:
            break
        kept += 1
    return kept


def progress(text: str) -> None:
    """A line on stderr that the next one overwrites, where somebody reads along; "" clears it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
