"""mathlib slower: where the seconds of a measured step go that were not predicted, or that somebody
else's step does not need.
"""

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from mathlib.checks import InputError
from mathlib.cli.amounts import amount
from mathlib.cli.flags import words_of
from mathlib.cli.options import add_depth, layout_of, model_of
from mathlib.cli.registry import command
from mathlib.cli.steps import machine_of
from mathlib.cli.text import Fact, answer
from mathlib.cli.typed import Typed
from mathlib.units import show

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.plan.gap import Run

SUSPECTS = 4  # that are shown


def slower_options(parser: ArgumentParser) -> None:
    second = amount("second")
    parser.add_argument("run", help="a `time` command in quotes: what was run")
    parser.add_argument("took", type=second, help="what its step was measured to take, such as 9s")
    parser.add_argument("than", nargs="?", help="another run, against which the first is held")
    parser.add_argument("its", nargs="?", type=second, help="what a step of that was measured at")
    parser.add_argument(
        "--published",
        metavar="NAME",
        help="instead of another run: one that was published, which `mathlib layouts` lists",
    )
    add_depth(parser)


@command(
    "slower",
    "why a measured step takes longer than predicted, than another run's, than a published one",
    'slower "time llama3-8b --cluster dgx-h100 --data 64 --zero 1 --micro-batches 4" 9s',
    'slower "time llama3-8b --device h100-sxm --data 64 --recompute full" 4s '
    '"time llama3-8b --device h100-sxm --data 64 --zero 3" 2.6s',
    'slower "time llama3-8b --device h100-sxm --precision fp8 --data 8 --zero 1" 1s '
    "--published nemo-llama3-8b",
    options=slower_options,
)
def slower_command(args: Typed) -> None:
    from mathlib.plan import gap

    mine, program = run_of(args, args.run, args.took)
    if args.published:
        return published(args, mine)
    if args.than is None:
        parts = gap.measured(mine.on, mine.layout, seconds=mine.seconds)
        suspects = gap.suspects(mine.on, mine.layout, seconds=mine.seconds)[:SUSPECTS]
        facts: list[Fact] = [
            (f"{one.what}; explains at most", one.most, "second")
            if one.needed is None
            else (f"{one.what}, here {one.now:.3g}; alone would explain it", one.needed, "")
            for one in suspects
        ]
        return answer(args, parts, facts)
    if args.its is None:
        raise InputError(f"{args.than!r}: expected the time of its step after it, such as 3s")
    other, _ = run_of(args, args.than, args.its)
    return answer(args, gap.between(mine, other), changed(mine, other))


def published(args: Typed, mine: "Run") -> None:
    """Against a step that somebody published."""
    from mathlib.plan import gap, sweeps

    if args.than is not None:
        raise InputError(f"--published {args.published}: expected without another run")
    known = sweeps.printed()
    if args.published not in known:
        raise InputError(f"--published {args.published}: expected one of {', '.join(known)}")
    other = sweeps.find_printed(args.published)
    parts = gap.between(mine, other.run)
    parts.title += f": {other.title}, {show(other.run.seconds, 'second')} ({other.source})"
    answer(args, parts, changed(mine, other.run))


def changed(mine: "Run", other: "Run") -> list[Fact]:
    """The same seconds by what the two differ in; what is left over stands in the parts."""
    from mathlib.plan import gap

    parts = gap.changes(mine, other)
    return [(f"by {name}", parts.amount(name), "second") for name in parts if name != gap.UNKNOWN]


def run_of(args: Typed, text: str, seconds: float) -> tuple["Run", str]:
    """The run that a `time` command tells of, and the program that ran it."""
    from mathlib.cli.parser import typed_of
    from mathlib.plan.gap import Run

    words = words_of(text, "a command in quotes") if text.strip() else []
    if not words or words[0] != "time":
        raise InputError(f"{text!r}: expected a command such as 'time gpt2 --device h100-sxm'")
    told = typed_of(words)
    if told.offload != "none":
        raise InputError(f"--offload {told.offload}: a gap is split for steps without it")
    model = model_of(told)
    run = Run(machine_of(told, model), layout_of(told, model, uneven=True), seconds)
    program = told.program
    told.refuse_unused()
    args.read |= told.read
    args.ignored += told.ignored
    args.assumed += told.assumed
    args.unknown += told.unknown
    return run, program
