"""mathlib cost: time, device-hours, money, energy and CO2 of a whole run."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from mathlib import specs
from mathlib.checks import InputError, fraction
from mathlib.cli.amounts import NUMBER, amount, corpus, share
from mathlib.cli.options import add_dtype, add_model, add_tokens, model_of, named, peak_of
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, facts_dict, facts_table, show, wrapped
from mathlib.cli.typed import Typed

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

BEYOND = (
    "without failures; `mathlib time` and `plan` with --train predict the share, and count them"
)


def cost_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    parser.add_argument(
        "--train",
        type=corpus,
        required=True,
        metavar="TOKENS",
        help="tokens of the run, such as 300B",
    )
    parser.add_argument(
        "--device", required=True, metavar="NAME", help="a name that `mathlib devices` lists"
    )
    parser.add_argument("--devices", type=NUMBER, metavar="N", help="how many of them")
    parser.add_argument(
        "--within",
        type=amount("second"),
        metavar="TIME",
        help="instead of --devices: be done in 30days, 8h",
    )
    add_dtype(parser)
    parser.add_argument(
        "--utilization",
        type=share,
        default=0.4,
        metavar="SHARE",
        help="of the peak, MFU; 40%% if not given, which is what published runs of dense models "
        "reach (`mathlib runs`)",
    )
    add_bill(parser)


def add_bill(parser: ArgumentParser) -> None:
    """What an hour and a kWh are taken to cost."""
    group = parser.add_argument_group("price, energy and CO2")
    add_price(group)
    group.add_argument(
        "--pue",
        type=NUMBER,
        default=1.1,
        metavar="X",
        help="energy of the data centre over its devices'; 1.1 if not given",
    )
    group.add_argument(
        "--co2", type=NUMBER, metavar="KG", help="kg of CO2 of a kWh of the grid, such as 0.385"
    )


def add_price(group: "_ArgumentGroup") -> None:
    """What a device-hour costs."""
    group.add_argument("--price", type=NUMBER, metavar="MONEY", help="of one device-hour")
    group.add_argument(
        "--rent", metavar="NAME", help="instead: the prices of a name that `mathlib prices` lists"
    )


@command(
    "cost",
    "time, device-hours, price, energy and CO2 of a run; or the devices a deadline needs",
    "cost llama3-70b --train 15T --device h100-sxm --devices 8000 --price 2",
    "cost llama2-7b --train 2T --device a100-80gb --within 30days --utilization 50%",
    "cost gpt3-175b --train 300B --device a100-80gb --devices 1024 --co2 0.385",
    "cost llama2-7b --train 200B --device h200-sxm --devices 64 --rent aws-p5en.48xlarge",
    options=cost_options,
)
def cost_command(args: Typed) -> None:
    from mathlib.compute import cost, flops

    if (args.devices is None) == (args.within is None):
        raise InputError("--devices or --within: expected one of the two")
    model = model_of(args)
    device = specs.find_device(named("devices", "device", args.device))
    rate = peak_of(args, device) * fraction("utilization", args.utilization)
    flop = flops.run(model, total_tokens=args.train, tokens=args.tokens).total
    devices = args.devices
    if devices is None:
        devices = cost.devices_for(flop=flop, seconds=args.within, achieved=rate)
    seconds = cost.training_time(flop=flop, devices=devices, achieved=rate)
    hours = cost.device_hours(devices=devices, seconds=seconds)
    facts: list[Fact] = [
        ("run", flop, "FLOP"),
        ("devices", devices, ""),
        ("achieved by a device", rate, "FLOP/s"),
        ("time", seconds, "second"),
        ("tokens a second", args.train / seconds, "token"),
        ("device-hours", hours, "hours"),
    ]
    facts += _bill(args, device, hours)
    facts += _energy(args, device, hours)
    title = f"Training {model.title} on {device.title}, at {args.utilization:.0%} of its peak"
    text = f"{title}\n\n{facts_table(facts)}\n\n{wrapped(f'at this share, {BEYOND}')}"
    show(args, text, {"title": f"{title}, {BEYOND}", "also": facts_dict(facts)})


def prices_of(args: Typed, device: specs.Device) -> dict[str, float]:
    """Of a device-hour: the price that was typed, or each of those that a list had."""
    if args.price is not None and args.rent is not None:
        raise InputError(f"--rent {args.rent}: has its prices; leave --price out")
    if args.price is not None:
        return {"price": args.price}
    if args.rent is None:
        return {}
    from mathlib.plan import rent

    of = rent.find_price(named("prices", "rent", args.rent))
    if of.device != device.name:
        raise InputError(f"--rent {of.name}: is a price of {of.device}, not of {device.name}")
    return of.modes


def _bill(args: Typed, device: specs.Device, hours: float) -> list[Fact]:
    """Money; and of spot devices what they must keep of their goodput to be worth it."""
    from mathlib.compute import cost

    paid, facts = prices_of(args, device), []
    for mode, each in paid.items():
        what, unit = ("price", "") if mode == "price" else (f"{mode}, {each:g} an hour", "USD")
        facts.append((what, cost.price(device_hours=hours, price_per_hour=each), unit))
    if "spot" in paid:
        from mathlib.plan import rent

        spot = paid.pop("spot")
        for mode, each in paid.items():
            share = rent.even_goodput(price_per_hour=each, spot_price_per_hour=spot)
            facts.append((f"goodput spot must keep against {mode}", share, ""))
    return facts


def _energy(args: Typed, device: specs.Device, hours: float) -> list[Fact]:
    """Energy at the rated power; CO2 where the grid's is told."""
    from mathlib.compute import cost

    if not device.power:
        if args.co2 is not None:
            raise InputError(f"--co2: {device.name} has no rated power to count energy by")
        return []
    kwh = cost.energy_kwh(device_hours=hours, watts=device.power, pue=args.pue)
    facts: list[Fact] = [("energy at rated power", kwh, "kWh")]
    if args.co2 is not None:
        kg = cost.co2_kg(energy_kwh=kwh, kg_per_kwh=args.co2)
        facts.append(("CO2", kg, "kg"))
    return facts
