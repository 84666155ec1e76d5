"""mathlib fit: fewest devices, largest batch, longest context, and a layout that does it."""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mathlib.checks import InputError
from mathlib.cli import terminal
from mathlib.cli.amounts import NUMBER, amount
from mathlib.cli.options import add_model, add_tokens, model_of
from mathlib.cli.plans import add_search, follow, search_of
from mathlib.cli.registry import command
from mathlib.cli.steps import add_machine, machine_of
from mathlib.cli.text import show, wrapped
from mathlib.cli.typed import Typed

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.plan.machine import Machine
    from mathlib.plan.planner import Answer


def fit_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    add_machine(parser)
    add_search(parser)
    parser.add_argument(
        "--devices", type=NUMBER, metavar="N", help="so many there are: tells the most they hold"
    )
    parser.add_argument(
        "--batch", type=NUMBER, metavar="N", help="sequences of a step; 1 if not given"
    )
    parser.add_argument(
        "--within", type=amount("second"), metavar="TIME", help="a step takes at most so long"
    )


@command(
    "fit",
    "the fewest devices that hold a model; or the largest batch and context of so many",
    "fit llama3-70b --cluster p5.48xlarge --batch 64",
    "fit llama2-7b --device a100-80gb --devices 8",
    "fit llama2-7b --device a100-80gb --batch 128 --within 10s",
    options=fit_options,
)
def fit_command(args: Typed) -> None:
    from mathlib.plan import planner

    model = model_of(args)
    on, how = machine_of(args, model), search_of(args)
    batch = args.batch or 1
    search = how | {"tell": follow, "program": args.program}
    if args.devices is None:
        found = [planner.fewest(on, sequences=batch, within=args.within, **search)]
    elif args.tokens is not None and args.batch is not None:
        raise InputError("--tokens, --batch: with --devices leave one out, which is looked for")
    else:
        found = []
        if args.batch is None:
            found.append(planner.largest(on, devices=args.devices, **how))
        if args.tokens is None:
            found.append(planner.longest(on, devices=args.devices, sequences=batch, **search))
    terminal.progress("")
    show(args, _told(on, found), {"answers": [_data(one) for one in found]})


def _told(on: "Machine", found: "list[Answer]") -> str:
    title = f"{on.model.title} on {on.cluster.title}, {on.tokens:,} tokens a sequence"
    return "\n\n".join(
        [terminal.paint(wrapped(title), "strong"), *[wrapped(str(f)) for f in found]]
    )


def _data(one: "Answer") -> dict[str, Any]:
    layout = asdict(one.choice.layout) if one.choice else None
    size = {"step": one.choice.seconds, "memory": one.choice.memory} if one.choice else {}
    told = {"beyond": one.beyond or None, "complete": one.complete}
    return {"what": one.what, "value": one.value, "layout": layout} | size | told
