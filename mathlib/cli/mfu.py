"""mathlib mfu: a run's share of the peak, as each source would print it."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any, NamedTuple

from mathlib import specs, units
from mathlib.checks import InputError, positive, whole
from mathlib.cli.amounts import NUMBER, amount, share, speed
from mathlib.cli.options import (
    add_dtype,
    add_model,
    add_recompute,
    add_tokens,
    model_of,
    named,
    peak_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import columns, facts_dict, facts_table, show, wrapped
from mathlib.cli.typed import Typed
from mathlib.specs import Model

if TYPE_CHECKING:  # loaded when the command needs it
    from mathlib.compute.conventions import Counted

HOW = ("tokens_per_second", "each", "step", "rate", "mfu")  # ways to tell how quick it is
NOTE = (
    "TFLOP/s of a device as the source prints them: Megatron's two papers with what is computed "
    "again, all others without. No HFU: the source never counts it."
)
NEEDED = "--tokens-per-second, --each, --step with --batch, or --rate or --mfu with --as"


def mfu_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    add_recompute(parser)
    run = parser.add_argument_group("the run")
    run.add_argument("--device", metavar="NAME", help="a name that `mathlib devices` lists")
    run.add_argument(
        "--devices", type=NUMBER, default=1, metavar="N", help="how many of them; 1 if not given"
    )
    add_dtype(run)
    run.add_argument(
        "--pipeline",
        type=NUMBER,
        default=1,
        metavar="N",
        help="pipeline stages, since a tied table is there twice; 1 if not given",
    )
    quick = parser.add_argument_group("how quick it is", "one of these")
    quick.add_argument(
        "--tokens-per-second", type=NUMBER, metavar="N", help="of all devices together"
    )
    quick.add_argument("--each", type=NUMBER, metavar="N", help="tokens a second of one device")
    quick.add_argument(
        "--step", type=amount("second"), metavar="TIME", help="of a step of --batch, such as 3.4s"
    )
    quick.add_argument("--batch", type=NUMBER, metavar="N", help="sequences of a step")
    quick.add_argument(
        "--rate",
        type=speed,
        metavar="RATE",
        help="of a device as a source prints it, such as 711TFLOP/s",
    )
    quick.add_argument("--mfu", type=share, metavar="SHARE", help="of the peak, as it prints it")
    quick.add_argument("--as", metavar="NAME", help="whose figure --rate or --mfu is, such as nemo")
    quick.add_argument(
        "--published",
        metavar="NAME",
        help="instead of all: a run that `mathlib layouts` or `mathlib runs` lists",
    )


@command(
    "mfu",
    "the same run as each source prints it: FLOP/s, MFU and HFU by what it counts",
    "mfu llama3-8b --device h100-sxm --devices 8 --tokens-per-second 72000",
    "mfu llama3-70b --device h100-sxm --devices 64 --step 14.5s --batch 128 --recompute full",
    "mfu llama3-8b --device h100-sxm --rate 711TFLOP/s --as nemo",
    "mfu --published bridge-llama3-70b",
    options=mfu_options,
)
def mfu_command(args: Typed) -> None:
    from mathlib.compute import conventions

    run = published_run(args) if args.published else typed_run(args)
    found = conventions.counted(
        run.model, tokens_per_second=run.speed, devices=run.devices, peak=run.peak, **run.shape
    )
    title = f"{run.model.title} on {run.devices:,.0f} x {run.title}, as each source counts"
    facts = [
        ("tokens a second", run.speed, "token/s"),
        ("of a device", run.speed / run.devices, "token/s"),
        ("peak of a device", run.peak, "FLOP/s"),
    ]
    rows = [
        (
            one.convention.name,
            f"{one.printed / 1e12:,.1f}",
            f"{one.mfu:.1%}",
            "" if one.hfu is None else f"{one.hfu:.1%}",
            units.show(one.model_flop, "FLOP"),
            one.convention.title,
        )
        for one in found
    ]
    head = ("as", "TFLOP/s", "MFU", "HFU", "a token", "called")
    text = [wrapped(title), columns(head, rows), facts_table(facts), wrapped(NOTE)]
    counted = [as_data(one) for one in found]
    show(
        args,
        "\n\n".join(text),
        {"title": title, "also": facts_dict(facts), "conventions": counted},
    )


def as_data(one: "Counted") -> dict[str, Any]:
    """A row for a program, with what the source counts."""
    how = one.convention
    return {
        "name": how.name,
        "title": how.title,
        "flop_per_token": one.model_flop,
        "printed": {"value": one.printed, "unit": "FLOP/s"},
        "mfu": one.mfu,
        "hfu": one.hfu,
        "counts": {"weights": how.weights, "attention": how.attention, "again": how.again},
        "source": how.source,
    }


class Told(NamedTuple):
    """A run, however it was told."""

    model: Model
    title: str  # of the device
    devices: int
    peak: float
    speed: float  # tokens a second of all devices
    shape: dict[str, Any]  # tokens, recompute, pipeline


def typed_run(args: Typed) -> Told:
    """What the options say."""
    model = model_of(args)
    if not args.device:
        raise InputError("--device: needed, for the peak (--device h100-sxm)")
    device = specs.find_device(named("devices", "device", args.device))
    peak = peak_of(args, device)
    shape = {name: getattr(args, name) for name in ("tokens", "recompute", "pipeline")}
    whole("devices", args.devices)
    speed = speed_of(args, model, peak)
    return Told(model, device.title, args.devices, peak, speed, shape)


def published_run(args: Typed) -> Told:
    """One that `mathlib layouts` lists, or one of `mathlib runs` with its tokens a second."""
    from mathlib.compute import reported

    name = args.published
    if name in reported.names():
        run = reported.find_run(name)
        if not run.tokens_per_second:
            raise InputError(f"--published {name}: its source prints no tokens a second")
        again = "none" if run.recompute == "unsaid" else run.recompute
        device, model = specs.find_device(run.device), specs.find_model(run.model)
        how = {"recompute": again}
        return Told(model, device.title, run.devices, run.peak, run.tokens_per_second, how)
    from mathlib.plan import sweeps

    if name not in sweeps.printed():
        raise InputError(f"--published {name}: no such name; `mathlib layouts` and `runs` list all")
    step = sweeps.find_printed(name).run
    on, lay = step.on, step.layout
    peak = on.device.half if on.rates.precision == "half" else on.device.peak[on.rates.precision]
    shape = {"tokens": on.tokens, "recompute": lay.recompute, "pipeline": lay.pipeline}
    speed = lay.world * step.each / step.seconds
    return Told(on.model, on.device.title, lay.world, peak, speed, shape)


def speed_of(args: Typed, model: Model, peak: float) -> float:
    """Tokens a second of all devices, by whatever was told of it."""
    from mathlib.compute import conventions

    told = [name for name in HOW if name in args.given]
    if len(told) != 1:
        raise InputError(f"expected one of {NEEDED}")
    if told[0] in ("rate", "mfu"):
        source = (getattr(args, "as") or "").lower()
        if not source:
            raise InputError(f"--{told[0]}: whose? expected --as with a source, such as --as nemo")
        printed = args.rate if told[0] == "rate" else args.mfu * peak
        return conventions.tokens_per_second(
            model,
            rate=printed,
            devices=args.devices,
            convention=source,
            tokens=args.tokens,
            recompute=args.recompute,
            pipeline=args.pipeline,
        )
    if told[0] == "step":
        if args.batch is None:
            raise InputError("--step: expected --batch with it, the sequences of a step")
        return args.batch * (args.tokens or model.context) / positive("step", args.step)
    return args.tokens_per_second if told[0] == "tokens_per_second" else args.each * args.devices
