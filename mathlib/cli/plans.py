"""mathlib plan: the quickest layouts of a model on a cluster, and why the others are not."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mathlib.checks import InputError, whole
from mathlib.cli import days, terminal
from mathlib.cli.adapting import add_adapters
from mathlib.cli.amounts import NUMBER, room, share
from mathlib.cli.days import Run, add_run
from mathlib.cli.hosts import add_host
from mathlib.cli.memory import recipe_named
from mathlib.cli.options import add_model, add_reserve, add_tokens, model_of, reserve_of
from mathlib.cli.registry import command
from mathlib.cli.steps import add_machine, machine_of, memory_words
from mathlib.cli.text import columns, facts_dict, show, wrapped
from mathlib.cli.typed import Typed
from mathlib.records import asdict
from mathlib.specs import Layout
from mathlib.units import show as shown

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.plan.machine import Machine
    from mathlib.plan.planner import Answer
    from mathlib.plan.search import Choice, Progress, Ranking

SHORT = {  # a column for each axis that any of the layouts uses
    "tensor": "tensor",
    "context": "context",
    "expert": "expert",
    "pipeline": "stages",
    "chunks": "chunks",
    "data": "data",
    "zero": "ZeRO",
    "shard": "shard",
    "micro_batch": "micro-batch",
    "recompute": "recompute",
}

DAY = 86400.0  # seconds
OOM = "OOM"  # the head of a column
Columns = dict[str, list[str]]  # of a table, by their heads


def plan_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    add_machine(parser)
    add_search(parser)
    add_run(parser)
    parser.add_argument("--devices", type=NUMBER, metavar="N", help="devices in all")
    parser.add_argument("--batch", type=NUMBER, metavar="N", help="sequences of a step")
    parser.add_argument(
        "--top", type=NUMBER, default=10, metavar="N", help="layouts; 10 if not given"
    )
    parser.add_argument(
        "--variants",
        action="store_true",
        help="all layouts, not the quickest of each mix of tensor, stages, expert and ZeRO alone",
    )


def add_search(parser: ArgumentParser) -> None:
    """What a layout may take."""
    group = parser.add_argument_group("room")
    group.add_argument(
        "--memory", type=room, metavar="SIZE", help="of a device; what it reports if not given"
    )
    add_reserve(group)
    group.add_argument(
        "--recipe", metavar="NAME", help="copies of a parameter; the program's own if not given"
    )
    group.add_argument(
        "--risk",
        type=share,
        default=0.05,
        metavar="SHARE",
        help="how likely it may run out of memory at most; 5%% if not given, 100%% for any",
    )
    for option, metavar, what in (
        ("--only", "AXIS=N", "layouts with these alone, such as zero=3,recompute=none"),
        ("--most", "AXIS=N", "layouts with no more than these, such as tensor=4,micro_batch=2"),
    ):
        group.add_argument(option, type=axes, default={}, metavar=metavar, help=what)
    add_adapters(parser)
    add_host(parser).add_argument(
        "--offload",
        action="store_true",
        help="states and activations may wait in the host's memory",
    )


def axes(text: str) -> dict[str, Any]:
    """tensor=4,recompute=none as values of axes, which the search knows."""
    from mathlib.plan.wording import axes_of

    try:
        return axes_of(text)
    except InputError as refused:
        raise ArgumentTypeError(str(refused)) from None


def search_of(args: Typed, on: "Machine") -> dict[str, Any]:
    """The same as the library's options."""
    reserve = reserve_of(args, args.memory or on.device.room, args.program)
    how = {"memory": args.memory, "reserve": reserve, "program": args.program}
    recipe = None if args.recipe is None else recipe_named(args.recipe)
    how |= {"only": args.only, "at_most": args.most}
    return how | {"recipe": recipe, "risk": args.risk if args.risk < 1 else None}


@command(
    "plan",
    "the quickest layouts on so many devices, ranked, with the reasons",
    "plan llama2-7b --cluster dgx-a100 --devices 8 --batch 64",
    "plan mixtral-8x7b --device h100-sxm --devices 16 --batch 64 --tokens 4k --top 5",
    "plan llama3-70b --cluster dgx-a100 --devices 16 --batch 16 --offload --risk 10%",
    "plan llama3-8b --device h100-sxm --devices 64 --batch 512 --train 1T --price 2",
    "plan llama3-70b --device a100-80gb --devices 8 --batch 64 --tokens 4k --lora 16",
    options=plan_options,
)
def plan_command(args: Typed) -> None:
    from mathlib.plan import planner
    from mathlib.plan.wording import at_risk, would_do

    model = model_of(args)
    on = machine_of(args, model)
    for name in ("devices", "batch"):
        if getattr(args, name) is None:
            raise InputError(f"--{name}: needed (--devices 64 --batch 512)")
    found = planner.search(
        on,
        devices=args.devices,
        sequences=args.batch,
        most=whole("top", args.top),
        variants=args.variants,
        tell=follow,
        **search_of(args, on),
    )
    terminal.progress("")
    title = f"{model.title}, {args.batch:,} sequences of {on.tokens:,} tokens on {args.devices:,} "
    title += f"devices of {on.cluster.title}"
    title += f", {on.adapters}" if on.adapters else ""
    counted = memory_words(args)
    head = terminal.paint(wrapped(title), "strong")
    data: dict[str, Any] = {"title": title, "keeps": counted.partition(": ")[2].partition("\n")[0]}
    counted = wrapped(counted)
    fits = f"fits: {at_risk(args.risk)} (--risk)"
    if not found:
        args.status = 1
        more = enough(args, on, found)
        data |= ranking_data(on, found) | {"enough": more.value or None}
        none = wrapped(f"{found}\n{fits}\n{would_do(more)}")
        return show(args, f"{head}\n\n{terminal.paint(none, 'bad')}\n\n{counted}", data)
    shown = found.choices
    runs = list(filter(None, (whole_run(args, on, one) for one in shown)))
    text = [head, ranked(on, shown, runs), f"{told(on, found, fits)}\n{counted}"]
    if runs:
        text.insert(2, wrapped(days.sentence(runs[0], *times(found))))
        data["also"] = facts_dict(days.facts(runs[0], *times(found)))
    show(args, "\n\n".join(text), data | ranking_data(on, found, runs))


def whole_run(args: Typed, on: "Machine", one: "Choice") -> Run | None:
    """The run that was asked for in a layout."""
    n, tokens = one.layout.world, one.layout.sequences * on.tokens
    return days.run_of(args, on, devices=n, tokens=tokens, seconds=one.seconds)


def times(found: "Ranking") -> tuple[float, float]:
    """Between what multiples of its time the first layout was measured, where anybody knows."""
    first, between = found.choices[0].seconds, found.between
    return (between.low / first, between.high / first) if between else (0.0, 0.0)


def enough(args: Typed, on: "Machine", found: "Ranking") -> "Answer":
    """How many devices would do, where so many do not; none where the search was stopped."""
    from mathlib.plan.wording import enough_devices

    how = search_of(args, on) | {"sequences": args.batch, "tell": follow}
    more = enough_devices(on, found, args.devices, how)
    terminal.progress("")
    return more


def follow(done: "Progress") -> None:
    """How far a search is, for who waits; Ctrl-C ends it with the best so far."""
    best = f", best {shown(done.seconds, 'second')}" if done.seconds else ""
    terminal.progress(f"{done.share:.0%}, {done.tried:,} layouts{best} (Ctrl-C: enough)")


def ranked(on: "Machine", choices: "list[Choice]", runs: list[Run]) -> str:
    """A line a layout; axes that none of them uses are left out. Where there is no room, reasons
    stand beneath the table, and so does what all layouts have alike.
    """
    from mathlib.plan.wording import of_peak

    layouts = [one.layout for one in choices]
    axes = {SHORT[axis]: [_cell(lay, axis) for lay in layouts] for axis in SHORT}
    axes["offload"] = ["" if one.offload == "none" else one.offload for one in choices]
    used = {name: cells for name, cells in axes.items() if any(cells)}
    number = {"#": [str(i) for i in range(1, len(choices) + 1)]}
    costs = {
        "step": [shown(one.seconds, "second") for one in choices],
        "memory": [shown(one.memory, "byte") for one in choices],
        OOM: [f"{one.risk:.0%}" for one in choices],
        f"MFU{of_peak(on)}": [f"{_mfu(on, one):.1%}" for one in choices],
    }
    if runs:
        costs["days"] = [f"{one.time.total / DAY:,.3g}" for one in runs]
        modes = runs[0].prices
        costs |= {mode: [f"{one.prices[mode]:,.0f}" for one in runs] for mode in modes}
    why = {"why": [one.reason for one in choices]}
    if _fits(number | used | costs | why):
        return _table(number | used | costs | why)
    alike: Columns = {}
    if not _fits(number | used | costs) and len(choices) > 1:
        alike = {name: cells for name, cells in used.items() if len(set(cells)) == 1}
    shared = ", ".join(f"{name} {cells[0]}" for name, cells in alike.items())
    beneath = [wrapped(f"all: {shared}")] if alike else []
    own = {name: used[name] for name in used if name not in alike}
    reasons = [wrapped(f"{i}  {one.reason}") for i, one in enumerate(choices, 1) if one.reason]
    return "\n".join([_table(number | own | costs), *beneath, "", *reasons])


def _table(cells: Columns, there: int = 0) -> str:
    return columns(list(cells), list(zip(*cells.values(), strict=True)), there)


def _fits(cells: Columns) -> bool:
    """Whether the terminal has room for all of a table."""
    return max(map(len, _table(cells, terminal.PLAIN).splitlines())) <= terminal.width()


def _cell(lay: Layout, axis: str) -> str:
    """A degree, where it is more than nothing."""
    neutral = {"zero": 0, "shard": lay.replicas, "recompute": "none"}
    value = getattr(lay, axis)
    return "" if value == neutral.get(axis, 1) else str(value)


def _mfu(on: "Machine", one: "Choice") -> float:
    from mathlib.plan import step

    return step.utilization(on, one.layout, offload=one.offload)


def told(on: "Machine", found: "Ranking", fits: str) -> str:
    """How many there were, what was too much, where the best one's time lies."""
    from mathlib.plan.wording import runs_of

    lines = [f"{found.tried:,} layouts tried, {found.fitting:,} fit", fits]
    if found.full:
        causes = ", ".join(f"{n:,} {name}" for name, n in found.full.items())
        lines.append(f"too much for the others: {causes}")
    if found.between:
        low, high = (shown(t, "second") for t in (found.between.low, found.between.high))
        lines.append(f"80% prediction interval, from {runs_of(on)} like the first: {low} to {high}")
        if found.choices[0].offload != "none":
            lines.append("no run behind that interval keeps anything in the host's memory")
        lines.append(f"{OOM}: the chance of running out of memory, by runs predicted like it")
    if not found.complete:
        lines.append("the search was stopped: this is the best until then")
    return wrapped("\n".join(lines))


def ranking_data(on: "Machine", found: "Ranking", runs: Sequence[Run] = ()) -> dict[str, Any]:
    """The same for programs."""
    of_runs = [
        {"run": {"value": one.time.total, "unit": "second"}, "prices": one.prices} for one in runs
    ] or [{}] * len(found.choices)
    return {
        "tried": found.tried,
        "fitting": found.fitting,
        "complete": found.complete,
        "full": found.full,
        "between": asdict(found.between) if found.between else None,
        "layouts": [
            choice_data(on, one) | more for one, more in zip(found.choices, of_runs, strict=True)
        ],
    }


def choice_data(on: "Machine", one: "Choice") -> dict[str, Any]:
    return {
        "layout": asdict(one.layout),
        "step": {"value": one.seconds, "unit": "second"},
        "memory": {"value": one.memory, "unit": "byte"},
        "offload": one.offload,
        "risk": one.risk,
        "mfu": _mfu(on, one),
        "reason": one.reason,
    }
