"""python -m mathlib: the formulas from the command line.

Bad input is one line on stderr and exit code 2, what does not fit is code 1.  Formulas are loaded
when a command needs them, and options when there is a command, to start quickly.
"""

import os
import sys
from collections.abc import Sequence

from mathlib import __version__
from mathlib.checks import InputError
from mathlib.cli.registry import MODULES, find_command
from mathlib.cli.typed import Typed, in_typed_words, parsed

LAUNCHES = {"megatron", "deepspeed", "torchrun", "accelerate", "torchtitan", "bridge"}
COMMANDS = {"inference": "kv", "generate": "kv", "hfu": "mfu", "gpus": "devices"}  # so typed


def typed_of(words: Sequence[str]) -> Typed:
    """What was typed behind a command's name, and what another program's flags stand for."""
    from mathlib.cli.usage import parser_of

    typed = parsed(parser_of(words[0]), words[1:])
    if typed.given & LAUNCHES:
        from mathlib.cli import launches

        launches.read(typed)
    return typed


def _asks_for_help(words: Sequence[str]) -> bool:
    """What needs no command."""
    if not words or words[0] in ("-h", "--help", "help"):
        from mathlib.cli.usage import overview

        print(overview())
    elif words[0] in ("--version", "version", "-V"):
        print(f"mathlib {__version__}")
    elif words[0] == "--completion":
        from mathlib.cli.completion import script

        print(script(" ".join(words[1:])), end="")
    else:
        return False
    return True


def _known(word: str) -> str:
    """A command's name; a near miss is told, or else the list."""
    if word in MODULES:
        return word
    from difflib import get_close_matches

    near = get_close_matches(word, list(MODULES), n=2, cutoff=0.6)
    near = [COMMANDS[word]] if word in COMMANDS else near
    told = f"did you mean {' or '.join(near)}?" if near else f"expected {', '.join(MODULES)}"
    raise InputError(f"{word!r} is no command: {told}")


def _refusal(words: Sequence[str], told: str) -> str:
    """A line, whose longest words are cut; for who asked for JSON, that."""
    import re

    told = re.sub(r"(\S{100})\S{100,}(\S{20})", r"\1...\2", told)
    if "--json" not in words:
        return f"mathlib: error: {told}"
    import json

    return json.dumps({"error": told, "status": 2})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 1 for what does not fit, 2 for bad input, which --json tells as JSON,
    130 when interrupted, 141 when nobody reads on.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    typed = Typed({})
    try:
        if not _asks_for_help(words):
            name = _known(words[0])
            typed = typed_of(words)
            find_command(name).answer(typed)
        sys.stdout.flush()
        return typed.status
    except InputError as refused:
        print(_refusal(words, in_typed_words(str(refused), typed)), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # or Python complains when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
