"""The experiment of the inference chapter: what fits on a device, and how fast it writes."""

from math import ceil, floor, log10

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import decode_time, inference
from mathlib.show import plot, says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, doubling, experiment

MODELS = ("llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b", "mistral-7b")
DEVICES = ("a100-40gb", "a100-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "tpu-v5e")
SHORT = 128  # tokens of a cache that hardly counts
WIDTHS = (("16 bits", 2.0), ("8 bits", 1.0), ("4 bits", 0.5))


def speeds(model: str, device: str, batches: list[int], **sizes: float) -> list[tuple[int, float]]:
    """Tokens a second of a batch of sequences, for each batch."""
    return [
        (B, decode_time.tokens_per_second(model, device, sequences=B, **sizes))  # type: ignore[arg-type]
        for B in batches
    ]


@experiment(
    "decode",
    "What fits, and how fast it writes",
    doubling("past", "Tokens in each cache", 128, 131072, 4096),
    doubling("sequences", "Sequences at once", 1, 512, 1),
    Choice("weights", "Weights", WIDTHS, 1.0, True),
    Choice("cells", "Cache", WIDTHS, 2.0, True),
    Choice("model", "Model", specs.titled("models", MODELS), "llama2-70b"),
    Choice("device", "Device", specs.titled("devices", DEVICES), "a100-80gb"),
    code=(decode_time.step, decode_time.bytes_read, inference.tokens_within),
)
def decode(model: str, device: str, past: int, sequences: int, weights: float, cells: float) -> str:
    chip, P = specs.find_device(device), params.count(model).total
    cache = inference.kv_cache(model, tokens=past, sequences=sequences, bytes_per_element=cells)
    parts = {"weights": weights * P, "cache": cache.total}
    sizes = {"past": past, "bytes_per_parameter": weights, "bytes_per_element": cells}
    step = decode_time.step(model, chip, sequences=sequences, **sizes)  # type: ignore[arg-type]
    say = _said(chip.room - sum(parts.values()), sequences, step.total)
    bars = svg.bars(
        [("on the device", parts)],
        title="Weights and cache",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )
    one, batches = cache.total / sequences, [2**i for i in range(10)]
    points = speeds(model, device, batches, **sizes)
    last = sum(parts["weights"] + B * one <= chip.room for B in batches)
    lines = {f"caches of {past:,} tokens": points[:last]}
    lines["does not fit"] = points[max(last - 1, 0) :]
    lines = {name: line for name, line in lines.items() if len(line) > 1}
    if past > SHORT:
        short = speeds(model, device, batches, **(sizes | {"past": SHORT}))
        lines[f"caches of {SHORT} tokens"] = short
    lines["your choice"] = [(sequences, sequences / step.total)]
    ticks = _decades([speed for line in lines.values() for _, speed in line])
    chart = plot.lines(
        lines,
        title="Tokens a second at most",
        x_title="sequences at once",
        y_title="tokens a second",
        log_x=True,
        log_y=True,
        y_ticks=ticks,
        beside=True,
        show_x=lambda v: f"{v:,.0f}",
        show_y=lambda v: f"{v:,.0f}",
    )
    law = equation(
        "T = T_w + T_c",
        T=(step.total, says.time(step.total)),
        T_w=(step.amount("weights"), says.time(step.amount("weights"))),
        T_c=(step.amount("cache"), says.time(step.amount("cache"))),
    )
    return f"{say}{bars}{chart}<p>A step, for its weights and for its caches:</p>{law}"


def _decades(speeds: list[float]) -> list[float]:
    """Powers of ten around all speeds, with room for a name beneath the lowest."""
    low, high = floor(log10(min(speeds) / 1.5)), ceil(log10(max(speeds)))
    return [10.0**e for e in range(low, high + 1)]


def _said(free: float, sequences: int, seconds: float) -> str:
    """Whether it fits, and how fast that is for one reader and for all."""
    fits = f"<b>It fits</b>, {says.size(free)} stay free."
    if free < 0:
        fits = f"<b>It does not fit</b>: {says.size(-free)} too much."
    each, together = 1 / seconds, sequences / seconds
    return (
        f'<p class="mlx-say">{fits} A step takes at least {says.time(seconds)}: '
        f"<b>{says.plain(round(each, 1))} tokens a second</b> for each sequence, "
        f"{says.plain(round(together, 1))} for all.</p>"
    )
