"""Whose code runs, and for how long: a reader's steps are counted, so that an endless loop ends.

A step is an instruction of Python's: `while True: pass` has no line that it comes back to.  A count
does not know how fast a machine is, as seconds do.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mathlib.checks import InputError

FILE = "<program>"  # what a reader's code is compiled as
MOST = 1_000_000  # steps of one rank


class Fault(Exception):  # noqa: N818
    """What a program did wrong, for the person who wrote it."""


class Unending(Fault):
    """It did so much that it may never end."""


class Endless(BaseException):
    """Too many steps; nothing that a program catches by `except Exception`."""


class Steps:
    """What a rank has done."""

    def __init__(self, who: str):
        self.who, self.count = who, 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Run some of a reader's code; what goes wrong there is a Fault that names its line."""
        before = sys.gettrace()
        sys.settrace(self._watch)
        try:
            yield
        except (StopIteration, Fault, KeyboardInterrupt):
            raise
        except Endless as error:
            raise Unending(str(error)) from None
        except BaseException as error:  # sys.exit() among them
            raise Fault(f"{self.who}, {_place(error)}{_words(error)}") from error
        finally:
            sys.settrace(before)

    def _watch(self, frame: Any, event: str, _: Any) -> Any:
        """Of a reader's own frames every step, of others nothing."""
        if frame.f_code.co_filename != FILE:
            return None
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        if self.count > MOST:
            said = f"has done {MOST:,} steps and is in line {frame.f_lineno}"
            raise Endless(f"{self.who} {said}: an endless loop?")
        return self._watch


def _place(error: BaseException) -> str:
    """The reader's own line in which it happened."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    lines, trace = [0], error.__traceback__
    while trace:
        lines += [trace.tb_lineno] if trace.tb_frame.f_code.co_filename == FILE else []
        trace = trace.tb_next
    last = [line for line in lines if line]
    return f"line {last[-1]}: " if last else ""


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
