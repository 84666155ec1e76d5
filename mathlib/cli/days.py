"""Days and price of a whole run: its training, and its saves and failures besides.

n devices · T seconds of training · F seconds between failures of the job
"""

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from mathlib.cli.amounts import amount, corpus
from mathlib.cli.costs import add_price, prices_of
from mathlib.cli.text import Fact
from mathlib.cli.typed import Typed
from mathlib.parts import Parts
from mathlib.records import dataclass
from mathlib.units import show as shown

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.plan.machine import Machine

RECORD = "Llama 3 405B, 16,384 H100"  # whose devices fail as often, and are saved as quickly
RESTART = 900.0  # seconds until a run has caught up, as MegaScale's, arXiv:2402.15627, section 6
SAVED = 12  # bytes of a parameter in a checkpoint: its wide copy and two moments


def add_run(parser: ArgumentParser) -> None:
    """How long the whole run is, what it is paid, and what stops it."""
    group = parser.add_argument_group("whole run")
    group.add_argument("--train", type=corpus, metavar="TOKENS", help="its tokens, such as 300B")
    add_price(group)
    for option, what in (
        (
            "--mtbf",
            "between failures of one device, such as 3years; as in Llama 3's run on 16,384 "
            "H100, 5.8 years, if not given",
        ),
        (
            "--save",
            "in which training stops for a checkpoint; 12 bytes a parameter at each "
            "device's share of the 2 TB/s of that run if not given",
        ),
        ("--restart", "from a failure until training goes on; 15min if not given"),
    ):
        group.add_argument(option, type=amount("second"), metavar="TIME", help=what)


@dataclass(frozen=True)
class Run:
    """A whole run on n devices, in seconds."""

    tokens: float
    devices: int
    time: Parts  # with saves and failures
    between: float  # failures of the job
    save: float
    restart: float
    told: str  # whose failures these are
    prices: dict[str, float]  # of all device-hours, by how they are rented

    @property
    def training(self) -> float:
        """Without saves and failures."""
        return self.time.amount("compute")


def run_of(
    args: Typed, on: "Machine", *, devices: int, tokens: float, seconds: float
) -> Run | None:
    """The run that was asked for, if one was, of steps that take so many tokens and seconds."""
    if args.train is None:
        return None
    from mathlib.compute import cost, params
    from mathlib.plan import goodput
    from mathlib.plan.interruptions import find_record

    like = find_record(RECORD)
    each = like.device_time_between_failures if args.mtbf is None else args.mtbf
    save, restart = args.save, RESTART if args.restart is None else args.restart
    if save is None:
        rate = like.storage / like.devices
        trained = on.adapters.parameters(on.model) if on.adapters else params.total(on.model)
        payload = SAVED * trained
        save = goodput.write_time(payload=payload, ranks=devices, bandwidth=rate)
    times = {"time_per_save": save, "time_between_failures": each / devices}
    whole = goodput.time_for(
        **times,
        seconds=args.train / tokens * seconds,
        time_between_saves=goodput.best_interval(**times),
        time_per_failure=restart,
    )
    hours = cost.device_hours(devices=devices, seconds=whole.total)
    prices = {
        mode: cost.price(device_hours=hours, price_per_hour=paid)
        for mode, paid in prices_of(args, on.device).items()
    }
    told = ", as in Llama 3's run on 16,384 H100" if args.mtbf is None else ""
    return Run(args.train, devices, whole, each / devices, save, restart, told, prices)


def sentence(run: Run, low: float = 0.0, high: float = 0.0) -> str:
    """The run in words; low and high: its 80% prediction interval, as multiples of its time."""
    took, whole = shown(run.training, "second"), run.time.total
    stops = f"one every {shown(run.between, 'second')} on {run.devices:,} devices{run.told}"
    told = f"{shown(run.tokens, 'token')} tokens take {took} of training and "
    told += f"{shown(whole, 'second')} with saves and failures ({stops}; "
    told += f"{shown(run.save, 'second')} a save, {shown(run.restart, 'second')} a restart)"
    if high:
        ends = (shown(times * whole, "second") for times in (low, high))
        told += f", 80% prediction interval {' to '.join(ends)}"
    return told + "".join(f"; {mode} {paid:,.0f}" for mode, paid in run.prices.items())


def facts(run: Run, low: float = 0.0, high: float = 0.0) -> list[Fact]:
    """The same as numbers."""
    whole = run.time.total
    found: list[Fact] = [
        ("whole run", run.training, "second"),
        ("with saves and failures", whole, "second"),
    ]
    if high:
        found.append(("80% interval of whole runs, from", low * whole, "second"))
        found.append(("80% interval of whole runs, to", high * whole, "second"))
    return [
        *found,
        ("a failure every", run.between, "second"),
        ("a save takes", run.save, "second"),
        ("a restart takes", run.restart, "second"),
        ("device-hours", run.devices * whole / 3600, "hours"),
        *((mode, paid, "") for mode, paid in run.prices.items()),
    ]
