"""mathlib fit: fewest devices, largest batch, longest context, and a layout that does it."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from mathlib.checks import InputError
from mathlib.cli import days, terminal
from mathlib.cli.amounts import NUMBER, amount
from mathlib.cli.days import add_run
from mathlib.cli.options import add_model, add_tokens, model_of
from mathlib.cli.plans import add_search, follow, search_of, whole_run
from mathlib.cli.registry import command
from mathlib.cli.steps import add_machine, machine_of
from mathlib.cli.text import facts_dict, show, wrapped
from mathlib.cli.typed import Typed
from mathlib.records import asdict, replace
from mathlib.units import show as shown

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.plan.calibration import Interval
    from mathlib.plan.machine import Machine
    from mathlib.plan.planner import Answer
    from mathlib.plan.search import Choice


def fit_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    add_machine(parser)
    add_search(parser)
    add_run(parser)
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
    "fit llama3-70b --device a100-80gb --tokens 2k --batch 8 --lora 16 --qlora",
    options=fit_options,
)
def fit_command(args: Typed) -> None:
    from mathlib.plan import planner

    model = model_of(args)
    on = machine_of(args, model)
    how = search_of(args, on)
    batch = 1 if args.batch is None else args.batch
    search = how | {"tell": follow}
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
    data, told = [_data(on, one) for one in found], [_told(on, found)]
    for one, row in zip(found, data, strict=True):
        if run := one.choice and whole_run(args, _of(on, one), one.choice):
            low, high = (row["between"][end] / row["step"] for end in ("low", "high"))
            row["also"] = facts_dict(days.facts(run, low, high))
            told.append(wrapped(days.sentence(run, low, high)))
    args.status = 0 if all(found) else 1
    show(args, "\n\n".join(told), {"answers": data})


def _of(on: "Machine", one: "Answer") -> "Machine":
    """The longest sequence is one of its own length."""
    return replace(on, tokens=one.value) if one.what == "tokens" else on


def _told(on: "Machine", found: "list[Answer]") -> str:
    """The answers."""
    title = f"{on.model.title} on {on.cluster.title}, {on.tokens:,} tokens a sequence"
    title += f", {on.adapters}" if on.adapters else ""
    answers = [wrapped(f"{one}{_between(on, one)}") for one in found]
    return "\n\n".join([terminal.paint(wrapped(title), "strong"), *answers])


def _interval(on: "Machine", one: "Answer", choice: "Choice") -> "Interval":
    """Where measured times of its step lie."""
    from mathlib.plan.step import interval

    return interval(_of(on, one), choice.layout, offload=choice.offload)


def _between(on: "Machine", one: "Answer") -> str:
    """The same in words, and how often it runs out of memory."""
    if not one.choice:
        return ""
    from mathlib.plan.wording import runs_of

    at = _interval(on, one, one.choice)
    low, high = shown(at.low, "second"), shown(at.high, "second")
    like = f"80% prediction interval, from {runs_of(on)} like it: {low} to {high}"
    return f"\n{like}\n{one.choice.risk:.0%} of runs predicted like it are too much for the memory"


def _data(on: "Machine", one: "Answer") -> dict[str, Any]:
    layout = asdict(one.choice.layout) if one.choice else None
    size: dict[str, Any] = {}
    if one.choice:
        size = {"step": one.choice.seconds, "memory": one.choice.memory, "risk": one.choice.risk}
        size["offload"] = one.choice.offload
        size["between"] = asdict(_interval(on, one, one.choice))
    told = {"beyond": one.beyond or None, "complete": one.complete}
    return {"what": one.what, "value": one.value, "layout": layout} | size | told
