"""Experiments of the compute chapter: where six breaks, and what a run takes in time and money."""

from mathlib import specs
from mathlib.compute import cost, flops, params
from mathlib.show import plot, says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Range, Toggle, doubling, experiment

PARTS = {
    "MLP": ("mlp",),
    "attention projections": ("attention projections",),
    "attention (QKᵀ and AV)": ("attention scores", "attention values"),
    "LM head": ("vocabulary",),
}


@experiment(
    "six",
    "Where six breaks",
    doubling("context", "Sequence length", 256, 65536, 1024, "tokens"),
    doubling("width", "Width", 256, 16384, 1024),
    Toggle("causal", "Count only the pairs a causal mask keeps"),
    doubling("layers", "Layers", 2, 128, 16),
    doubling("vocab", "Vocabulary", 1024, 262144, 65536),
    Choice(
        "which", "Parameters in P", (("all", "both"), ("all but the embeddings", "none")), "both"
    ),
    code=(flops.forward, flops.per_token, params.non_embedding),
)
def six(layers: int, width: int, context: int, vocab: int, causal: bool, which: str) -> str:
    model = specs.Model("yours", layers=layers, width=width, heads=1, vocab=vocab, context=context)
    P = params.count(model).total if which == "both" else params.non_embedding(model)
    forward = flops.forward(model, causal=causal)
    parts = {
        name: 3 * sum(forward.amount(p) for p in inside) / context for name, inside in PARTS.items()
    }
    spent = flops.per_token(model, causal=causal)
    body = parts["MLP"] + parts["attention projections"]
    core, head = (says.number(100 * parts[name] / body) for name in list(PARTS)[2:])
    say = (
        f'<p class="mlx-say">{says.count(P)} parameters in P: a token costs '
        f"{says.cell(spent / P)} P, <b>{_against_the_rule(spent / (6 * P))} the rule</b> 6P. "
        f"On top of the layers' weights, attention adds {core}%, the LM head {head}%.</p>"
    )
    bars = svg.bars(
        [("The formula, by part", parts), ("The rule, 6P", {"rule": 6 * P})],
        title="FLOP to train on one token",
        show=says.flop,
    )
    law = "C = 72 * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))"
    if causal:
        law = "C = 72 * L * h**2 * (1 + (s + 1) / (12 * h) + V / (12 * L * h))"
    shown = (spent, says.flop(spent))
    return say + bars + equation(law, C=shown, L=layers, h=width, s=context, V=vocab)


def _against_the_rule(ratio: float) -> str:
    """By how much the FLOP differ from six a parameter."""
    if abs(ratio - 1) < 0.0005:
        return "exactly"
    return f"{says.number(100 * abs(ratio - 1))}% {'more' if ratio > 1 else 'less'} than"


MODELS = ("gpt2-xl", "llama3-8b", "llama2-70b", "gpt3-175b", "llama3-405b", "deepseek-v3")
DEVICES = ("v100-32gb", "a100-80gb", "h100-sxm", "b200-sxm", "mi300x", "tpu-v5p")


def bill(
    model: str,
    tokens: float,
    device: str,
    devices: int,
    utilization: float,
    price: float,
) -> dict[str, float]:
    """Work, wall time, device-hours and price of a training run at a given MFU."""
    flop = flops.run(model, total_tokens=tokens).total
    chip = specs.find_device(device)
    rate = utilization * chip.half
    seconds = cost.training_time(flop=flop, devices=devices, achieved=rate)
    hours = cost.device_hours(devices=devices, seconds=seconds)
    energy = 0.0
    if chip.power:
        energy = cost.energy_kwh(device_hours=hours, watts=chip.power)
    return {
        "flop": flop,
        "rate": rate,
        "seconds": seconds,
        "hours": hours,
        "price": cost.price(device_hours=hours, price_per_hour=price),
        "kWh": energy,
    }


@experiment(
    "cost",
    "What does a training run take?",
    doubling("billions", "Training tokens", 75, 19200, 300, "billion"),
    doubling("devices", "Number of devices", 1, 65536, 1024),
    Range("percent", "Model FLOP utilisation", 5, 75, 1, 45, "%"),
    Choice("model", "Model", specs.titled("models", MODELS), "gpt3-175b"),
    Choice("device", "Device", specs.titled("devices", DEVICES), "a100-80gb"),
    Range("price", "Price of a device-hour", 0.5, 10.0, 0.25, 2.0, "$"),
    code=(bill, cost.training_time, cost.device_hours),
)
def cost_of_a_run(
    model: str, billions: int, device: str, devices: int, percent: int, price: float
) -> str:
    run = bill(model, billions * 1e9, device, devices, percent / 100, price)
    energy = "; the devices' rated power is not published"
    if run["kWh"]:
        energy = f", {_digits(run['kWh'] / 1000)}\u00a0MWh at the rated power of the devices"
    say = (
        f'<p class="mlx-say"><b>{says.time(run["seconds"])}</b> on {devices:,} {_many(devices)}: '
        f"{_digits(run['hours'])} device-hours, <b>${_digits(run['price'])}</b>{energy}.</p>"
    )
    law = equation(
        "T = C / (n * X)",
        T=(run["seconds"], says.time(run["seconds"])),
        C=(run["flop"], says.flop(run["flop"])),
        n=devices,
        X=(run["rate"], says.speed(run["rate"])),
    )
    days = run["seconds"] / 86400
    return say + _days_against_devices(devices, days, percent, run["price"]) + law


def _many(devices: int) -> str:
    return "device" if devices == 1 else "devices"


def _digits(value: float) -> str:
    """Three digits that mean something, the others zero: 545,000; 1.26 billion."""
    if value >= 1e9:
        return f"{value / 1e9:,.3g} billion"
    near = float(f"{value:.3g}")
    return f"{near:,.0f}" if near >= 100 else f"{near:g}"


REPORTED = (10.6, 53.3)  # lowest and highest MFU of large runs that the chapter names, in percent


def _days_against_devices(devices: int, days: float, percent: int, price: float) -> str:
    """The choice between the lines of perfect scaling at the lowest and the highest reported MFU,
    on as many devices as the control has.
    """
    counts = [16.0**k for k in range(5)]
    work = days * devices * percent
    lines = {f"MFU {mfu}%": [(n, work / mfu / n) for n in counts] for mfu in REPORTED}
    return plot.lines(
        lines | {"your choice": [(devices, days)]},
        title=f"Days against devices, your choice for ${_digits(price)}",
        x_title="devices",
        y_title="days",
        log_x=True,
        log_y=True,
        show_x=lambda v: f"{v:,.0f}",
        show_y=says.number,
    )
