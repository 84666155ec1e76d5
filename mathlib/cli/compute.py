"""mathlib params, mathlib flops: what a model has, what a training step and a run compute."""

from argparse import ArgumentParser

from mathlib import specs, units
from mathlib.checks import InputError, fraction, positive
from mathlib.cli.amounts import NUMBER, corpus, share
from mathlib.cli.options import (
    add_depth,
    add_dtype,
    add_model,
    add_recompute,
    add_tokens,
    model_of,
    named,
    peak_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer, columns
from mathlib.cli.typed import Typed
from mathlib.parts import Parts
from mathlib.specs import Model


def params_options(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--active", action="store_true", help="only what one token meets")
    parser.add_argument(
        "--embeddings",
        default="both",
        metavar="KIND",
        help="with --active: both, head or none; both if not given",
    )
    add_depth(parser)


@command(
    "params",
    "parameters of a model, by part",
    "params gpt2-xl",
    "params mixtral-8x7b --active",
    "params --layers 24 --width 1024",
    "params llama2-7b --kv-heads 8 --json",
    options=params_options,
)
def params_command(args: Typed) -> None:
    from mathlib.compute import params

    model = model_of(args)
    if args.active:
        parts = params.active(model, embeddings=args.embeddings)
        inner = params.active(model, embeddings="none").total
    else:
        parts, inner = params.count(model), params.non_embedding(model)
    facts: list[Fact] = [
        ("without embedding, positions, head", inner, "parameter"),
        ("12 L h^2", params.shorthand(layers=model.layers, width=model.width), "parameter"),
    ]
    if model.experts and not args.active:
        facts.append(("active for one token", params.active(model).total, "parameter"))
    answer(args, parts, facts)


def flops_options(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--sequences",
        type=NUMBER,
        default=1,
        metavar="N",
        help="sequences of a step; 1 if not given",
    )
    add_tokens(parser)
    parser.add_argument(
        "--causal", action="store_true", help="count only the pairs a causal mask keeps"
    )
    parser.add_argument(
        "--attention-backward",
        type=NUMBER,
        default=2,
        metavar="X",
        help="attention's backward in forwards: 2 if not given, 2.5 for FlashAttention",
    )
    add_recompute(parser)
    parser.add_argument(
        "--convention",
        default="counted",
        metavar="NAME",
        help="of selective recomputation: counted or korthikanti; counted if not given",
    )
    run_options(parser)


def run_options(parser: ArgumentParser) -> None:
    run = parser.add_argument_group("a whole run")
    run.add_argument(
        "--train", type=corpus, metavar="TOKENS", help="tokens of the run, such as 300B"
    )
    run.add_argument("--device", metavar="NAME", help="a name that `mathlib devices` lists")
    run.add_argument("--devices", type=NUMBER, metavar="N", help="how many of them")
    add_dtype(run)
    run.add_argument(
        "--utilization",
        type=share,
        default=0.4,
        metavar="SHARE",
        help="of the peak; 40%% if not given",
    )
    run.add_argument("--price", type=NUMBER, metavar="MONEY", help="of one device-hour")


@command(
    "flops",
    "FLOP of a training step, by part, and the time and cost of a run",
    "flops gpt2 --sequences 8 --causal",
    "flops gpt3-175b --recompute full --train 300B --device a100-80gb --devices 1024",
    "flops llama3-8b --tokens 32k --attention-backward 2.5",
    options=flops_options,
)
def flops_command(args: Typed) -> None:
    from mathlib.compute import flops

    model = model_of(args)
    if args.recompute != "selective" and "convention" in args.given:
        raise InputError("--convention: no effect without --recompute selective; leave it out")
    names = ("sequences", "tokens", "causal", "attention_backward", "recompute", "convention")
    parts = flops.training(model, **{name: getattr(args, name) for name in names})
    parts.title += f", {'causal' if args.causal else 'full'} attention"
    tokens = int(args.sequences * (args.tokens or model.context))
    each: Fact = ("tokens of a sequence", int(args.tokens or model.context), "token")
    facts = [each, *step_facts(model, parts.total, tokens)] + run_facts(args, parts.total / tokens)
    answer(args, parts, facts, phases_table(parts))


def phases_table(parts: Parts) -> str:
    """Parts of the model downwards, phases of the step across."""
    phases = [phase for phase in parts.values() if isinstance(phase, Parts)]
    rows = [
        (name, [phase.amount(name) if name in phase else 0 for phase in phases])
        for name in phases[0]
    ]
    rows.append(("total", [phase.total for phase in phases]))
    cells = [
        (name, *[units.show(n, "FLOP") for n in row], f"{sum(row) / parts.total:.1%}")
        for name, row in rows
    ]
    return columns(("part", *parts, "share"), cells)


def step_facts(model: Model, flop: float, tokens: int) -> list[Fact]:
    """A step's FLOP per token, and beside them 6N."""
    from mathlib.compute import params

    six = 6 * params.active(model).total
    return [
        ("one step", flop, "FLOP"),
        ("tokens", tokens, "token"),
        ("per token", flop / tokens, "FLOP"),
        ("6N per token", six, "FLOP"),
        ("counted / 6N", flop / tokens / six, ""),
    ]


def run_facts(args: Typed, per_token: float) -> list[Fact]:
    """Time and cost of a whole run, as far as the options say."""
    named = args.devices is not None, bool(args.device)
    if args.train is None:
        if any(named):
            raise InputError(
                "--train: needed for a time (--train 300B with --device and --devices)"
            )
        return []
    flop = per_token * positive("train", args.train)
    facts: list[Fact] = [
        ("run", flop, "FLOP"),
        ("run in PF/s-days", units.pf_days(flop), "PF/s-days"),
    ]
    if any(named) and not all(named):
        raise InputError(
            "--device, --devices: a time needs both (--device a100-80gb --devices 1024)"
        )
    return facts + time_facts(args, flop) if all(named) else facts


def time_facts(args: Typed, flop: float) -> list[Fact]:
    """What the run takes on the devices named."""
    from mathlib.compute import cost

    device = specs.find_device(named("devices", "device", args.device))
    rate = peak_of(args, device) * fraction("utilization", args.utilization)
    seconds = cost.training_time(flop=flop, devices=args.devices, achieved=rate)
    hours = cost.device_hours(devices=args.devices, seconds=seconds)
    facts: list[Fact] = [
        ("achieved by a device", rate, "FLOP/s"),
        ("time", seconds, "second"),
        ("device-hours", hours, "hours"),
    ]
    if args.price is not None:
        facts.append(("price", cost.price(device_hours=hours, price_per_hour=args.price), ""))
    return facts
