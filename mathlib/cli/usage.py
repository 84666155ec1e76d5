"""How a command's options are read, and how its help looks."""

from argparse import OPTIONAL, Action, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Any, NoReturn

from mathlib.checks import InputError
from mathlib.cli import terminal
from mathlib.cli.registry import every_command, find_command

ELSEWHERE = {  # options that people type, and what is meant by them here
    "--stage": "--zero for a stage of ZeRO, --pipeline-stage for one of the pipeline",
    "--batch": "--micro-batch, sequences of a pass, or --batch of `mathlib plan`",
    "--batch-size": "--micro-batch, sequences of a pass",
    "--tp": "--tensor",
    "--pp": "--pipeline",
    "--dp": "--data",
    "--cp": "--context-parallel",
    "--ep": "--expert",
    "--gpu": "--device",
    "--gpus": "--devices, or --data with --tensor and --pipeline",
    "--mfu": "--utilization, or `mathlib mfu`",
    "--hidden-size": "--width",
    "--num-layers": "--layers",
    "--checkpointing": "--recompute full",
    "--tps": "--tokens-per-second of all devices, or --each",
}
WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def page_width() -> int:
    """Columns of the help; where it is piped, those of a page."""
    return min(terminal.width(), 100)


class Formatter(RawDescriptionHelpFormatter):
    """Help as wide as the terminal; told so, argparse need not load what would ask for it."""

    def __init__(self, prog: str):
        super().__init__(prog, width=page_width() - 2)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """An option's words; an option among them stays whole."""
        from textwrap import wrap  # only the help needs it

        return wrap(text, width, **WHOLE_WORDS)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """A text's lines, each as wide as there is room."""
        lines = [
            _continued(line, width)
            if line.startswith("  mathlib ")
            else f"\n{indent}".join(self._split_lines(line, width))
            for line in text.splitlines()
        ]
        return "\n".join(indent + line for line in lines)


def _continued(example: str, width: int) -> str:
    """A long example goes on behind a backslash, so that it can be pasted; an option and its value
    stay together.
    """
    first, *options = example.split(" --")
    lines = [first]
    for option in options:
        if len(f"{lines[-1]} --{option} \\") <= width:
            lines[-1] += f" --{option}"
        else:
            lines.append(f"      --{option}")
    return " \\\n".join(lines)


class Parser(ArgumentParser):
    """argparse that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        said = message.removeprefix("argument ")
        raise InputError(f"{said} (--help shows examples)")

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def, override]
        """As argparse, but an option that is none comes with the one that is meant."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self.meant(rest)}")
        return found

    def format_help(self) -> str:
        """As argparse, but the usage is what must be typed, in a line, and what is seldom typed
        stands last.
        """
        from mathlib.cli.options import FLAGS, SHAPES  # only the help needs them

        self.usage = " ".join([self.prog, *filter(None, map(_must, self._actions)), "[options]"])
        self._action_groups.sort(key=lambda group: (SHAPES, FLAGS).count(group.title or ""))
        return super().format_help()

    def meant(self, rest: Sequence[str]) -> str:
        """A near miss."""
        wrong = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        if wrong in ELSEWHERE:
            return f"; here it is {ELSEWHERE[wrong]}"
        from difflib import get_close_matches  # only a refusal needs it

        near = get_close_matches(wrong, list(self._option_string_actions), n=2, cutoff=0.6)
        return f"; did you mean {' or '.join(near)}?" if near and wrong else ""


def _must(action: Action) -> str:
    """How the usage shows what is no option, or is one that has to be given; else nothing."""
    name = str(action.metavar or action.dest)
    if action.option_strings:
        return f"{action.option_strings[0]} {name}" if action.required else ""
    return f"[{name}]" if action.nargs == OPTIONAL else name


MORE = {
    "mathlib COMMAND --help": "its options and examples",
    "mathlib COMMAND --json": "the answer for programs; `mathlib schema` has its form",
    "mathlib --version": "the version",
    "mathlib --completion SHELL": "a script for bash, zsh or fish: commands, options and names",
    "exit status": "0 answered, it fits or is equal; 1 it does not fit, differs or has no verdict; "
    "2 bad input",
}


def overview() -> str:
    """All commands, a line each or, in a narrow terminal, a few."""
    says = {f"  {name}": one.says for name, one in every_command().items()}
    return "\n".join(
        [
            "usage: mathlib COMMAND [options]",
            "   or: python -m mathlib COMMAND [options]",
            "\nThe arithmetic of training transformers.\n",
            *_in_two_columns(says),
            "",
            *_in_two_columns(MORE),
        ]
    )


def _in_two_columns(says: dict[str, str]) -> list[str]:
    """What each is, beside its name."""
    from textwrap import fill  # only the help needs it

    wide = max(map(len, says))
    under = " " * (wide + 2)
    room = page_width()
    return [fill(f"{n:<{wide}}  {what}", room, subsequent_indent=under) for n, what in says.items()]


def parser_of(name: str) -> Parser:
    """The options of one command."""
    command = find_command(name)
    parser = Parser(
        prog=f"mathlib {name}",
        description=command.says[0].upper() + command.says[1:] + ".",
        epilog="\n".join(["examples:", *[f"  mathlib {line}" for line in command.examples]]),
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    command.options(parser)
    parser.add_argument("--json", action="store_true", help="machine-readable, units named")
    return parser
