"""Experiments of the planning chapter: from GPUs and days to a model and a bill; cost of saves."""

from math import sqrt

from mathlib import specs
from mathlib.compute import cost, params
from mathlib.parts import Parts
from mathlib.plan import goodput
from mathlib.show import plot, says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Range, doubling, experiment

MODELS = ("llama2-7b", "llama2-13b", "gpt-neox-20b", "llama2-70b", "gpt3-175b")
DEVICES = ("a100-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x")
DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
SAVE = 30.0  # seconds for which a save stops the training


def spent(devices: int, days: float, failures: float, minutes: float) -> Parts:
    """Seconds of training, of saving, and of waiting after failures, saved as often as Young says.

    `failures`: days until one device fails; `minutes`: until training goes on after one.
    """
    between = failures * DAY / devices
    every = goodput.interval(time_per_save=SAVE, time_between_failures=between)
    one = goodput.time_for(
        seconds=1.0,
        time_between_saves=every,
        time_per_save=SAVE,
        time_between_failures=between,
        time_per_failure=minutes * MINUTE,
    )
    share = days * DAY / one.total
    return Parts("The days", "second", {name: share * one.amount(name) for name in one})


def trained(
    devices: int, days: int, rate: float, ratio: int, lost: tuple[int, int]
) -> tuple[Parts, float, float]:
    """Where the days go, the FLOP done in them, and the parameters that these train.

    `rate`: FLOP/s of a device; `ratio`: tokens for each parameter; `lost`: days until one device
    fails, minutes until training goes on.
    """
    time = spent(devices, days, *lost)
    C = cost.flop_done(devices=devices, seconds=time.amount("compute"), peak=rate, utilization=1)
    return time, C, sqrt(C / (6 * ratio))


@experiment(
    "deadline",
    "From GPUs and days to a model and a bill",
    doubling("devices", "Devices", 8, 16384, 64),
    Range("days", "Days until the deadline", 5, 120, 5, 30),
    Choice("device", "Device", specs.titled("devices", DEVICES), "a100-80gb"),
    Range("percent", "Model FLOP utilisation", 20, 70, 1, 50, "%"),
    doubling("ratio", "Tokens for each parameter", 5, 1280, 20),
    doubling("failures", "Days until one device fails", 125, 16000, 2000),
    Range("minutes", "Minutes until training goes on", 5, 120, 5, 15),
    Range("price", "Price of a device-hour", 0.5, 10.0, 0.25, 2.0, "$"),
    code=(goodput.time_for, goodput.interval),
)
def deadline(
    devices: int,
    days: int,
    device: str,
    percent: int,
    ratio: int,
    failures: int,
    minutes: int,
    price: float,
) -> str:
    rate, lost = specs.find_device(device).half * percent / 100, (failures, minutes)
    time, C, P = trained(devices, days, rate, ratio, lost)
    seconds, bill = time.amount("compute"), _bill(devices, days, price)
    say = (
        f'<p class="mlx-say"><b>{says.count(P)} parameters</b> on {says.count(ratio * P)} tokens '
        f"for <b>${bill:,.0f}</b>. Something fails every {says.time(failures * DAY / devices)}, "
        f"and {1 - seconds / (days * DAY):.1%} of the time trains nothing.</p>"
    )
    bars = svg.bars(
        [("until the deadline", {name: time.amount(name) for name in time})],
        title="Where the days go",
        show=_days,
    )
    fleet = [2**k for k in range(3, 15)]
    models = [(_bill(n, days, price), trained(n, days, rate, ratio, lost)[2]) for n in fleet]
    chart = plot.lines(
        {"8 to 16,384 devices": models, "your choice": [(bill, P)]},
        title="What a bill buys until the deadline",
        x_title="price of the devices",
        y_title="parameters",
        log_x=True,
        log_y=True,
        show_x=lambda dollars: f"${says.count(dollars)}",
        show_y=says.count,
        x_ticks=[10.0**e for e in range(2, 10)],
        y_ticks=[10.0**e for e in range(8, 14)],
        beside=True,
    )
    law = equation("P = sqrt(C / (6 * r))", P=(P, says.count(P)), C=(C, says.flop(C)), r=ratio)
    return f"{say}{chart}{bars}<p>With {ratio} tokens for each parameter:</p>{law}"


def _bill(devices: int, days: int, price: float) -> float:
    return cost.price(device_hours=devices * days * 24, price_per_hour=price)


def _days(value: float) -> str:
    return f"{value / DAY:,.3g} days"


GIGABYTES = (1, 2, 5, 10, 20, 50, 100, 200, 500)


@experiment(
    "checkpoints",
    "What checkpoints cost",
    Choice("model", "Model", specs.titled("models", MODELS), "gpt3-175b"),
    doubling("minutes", "Minutes between checkpoints", 1, 512, 32),
    doubling("devices", "GPUs", 8, 16384, 1024),
    doubling("days", "Days until a GPU fails, on average", 64, 16384, 2048),
    Choice(
        "storage",
        "Storage takes",
        tuple((says.rate(g * 1e9), g * 1e9) for g in GIGABYTES),
        10e9,
        True,
    ),
    doubling("restart", "Minutes from a failure to the next step", 1, 64, 16),
    code=(goodput.write_time, goodput.interval, goodput.time_for),
)
def checkpoints(
    model: str, minutes: int, devices: int, days: int, storage: float, restart: int
) -> str:
    K = 12 * params.count(model).total  # fp32 weights and two moments
    save = goodput.write_time(payload=K, ranks=devices, bandwidth=1e9, storage_bandwidth=storage)
    failures = days * DAY / devices
    best = goodput.interval(time_per_save=save, time_between_failures=failures)
    run = {
        "seconds": DAY,
        "time_per_save": save,
        "time_between_failures": failures,
        "time_per_failure": MINUTE * restart,
    }

    def lost(between: float) -> dict[str, float]:
        day = goodput.time_for(**run, time_between_saves=between)
        return {part: day.share(part) for part in day if part != "compute"}

    here, ideal = lost(MINUTE * minutes), lost(best)
    say = (
        f'<p class="mlx-say">A checkpoint of {says.size(K)} takes {says.time(save)}. Something '
        f"fails every {says.time(failures)}. <b>{says.percent(sum(here.values()))} of the time "
        f"is lost</b>; with a checkpoint every {says.time(best)} it would be "
        f"{says.percent(sum(ideal.values()))}.</p>"
    )
    rows = [(f"every {says.time(MINUTE * minutes)}", here), (f"every {says.time(best)}", ideal)]
    bars = svg.bars(rows, title="Time that is not training", show=says.percent)
    law = equation(
        "tau = sqrt(2 * delta * F)",
        tau=(best, says.time(best)),
        delta=(save, says.time(save)),
        F=(failures, says.time(failures)),
    )
    return f"{say}{bars}<p>The best interval, for short saves:</p>{law}"
