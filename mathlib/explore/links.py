"""The experiment of the links chapter: codes and local steps against the bandwidth of a link."""

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.show import plot, says
from mathlib.show.experiments import Choice, Range, doubling, experiment
from mathlib.show.tables import table
from mathlib.traffic import compressed

MODELS = ("gpt2", "llama3.2-1b", "llama3-8b", "llama3-70b")
CODES = (
    ("bf16 gradients, no code", "bf16"),
    ("int8 with scales", "int8"),
    ("sign with scales", "sign"),
    ("top-k, 1% of the numbers", "top-k"),
    ("local steps, bf16 weights", "local"),
    ("local steps, 4-bit codes", "local4"),
)
# Bytes that the plain file's kernels read and write to code a number, as the chapter counts.
MOVED = {"bf16": 0, "int8": 150, "sign": 137, "top-k": 49, "local": 0, "local4": 150}
LINKS = tuple(
    (f"{g:g} Gbit/s", g * 1e9 / 8) for g in (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3200)
)
GPUS, TOKENS = 8, 2**17  # of a node; of a node in a step


@experiment(
    "send-less",
    "Send less over a slow link",
    Choice("model", "Model", specs.titled("models", MODELS), "llama3-8b"),
    Choice("link", "Link of a node", LINKS, 1.25e9, slider=True),
    Choice("code", "What is sent", CODES, "int8"),
    Range("steps", "Steps between meetings, of local steps", 10, 500, 10, 100),
    doubling("nodes", "Nodes of eight H100s", 2, 64, 4),
    code=(compressed.coded, compressed.local_steps, compressed.break_even, compressed.utilization),
)
def send_less(model: str, link: float, code: str, steps: int, nodes: int) -> str:
    shape = specs.find_model(model)
    H = steps if code.startswith("local") else 1
    compute = _compute(shape)
    less, full = _sent(shape, code, nodes, H), _sent(shape, "bf16", nodes, 1)
    idle = less / link + _coding(shape, code) / H
    used = compressed.utilization(compute=compute, sending=idle)
    plain = compressed.utilization(compute=compute, sending=full / link)
    say = (
        f'<p class="mlx-say">GPUs compute <b>{used:.0%} of the time</b>; with bf16 gradients sent '
        f"after every step, {plain:.0%}.</p>"
    )
    rows = [
        ["computing", says.time(compute)],
        ["coding", says.time(_coding(shape, code) / H)],
        ["sending", says.time(less / link)],
        ["a node sends", says.size(less)],
        ["in bf16, every step", says.size(full)],
        ["pays below", _even(full, less, _coding(shape, code) / H)],
    ]
    facts = table(["a step on average", "nothing hidden"], rows)._repr_html_()
    return say + facts + _curve(shape, code, nodes, H, link)


def _compute(shape: specs.Model) -> float:
    """Seconds of a step at 40% of the peak, so many tokens a node."""
    context = min(shape.context, 8192)
    work = 3 * TOKENS / context * flops.forward(shape.but(context=context), tokens=context).total
    return work / (GPUS * 0.4 * specs.find_device("h100-sxm").flops_per_second("bf16"))


def _sent(shape: specs.Model, code: str, nodes: int, H: int) -> float:
    P = shape.parameters
    if code == "top-k":
        return compressed.largest(kept=0.01 * P, ranks=nodes)
    bits = {"bf16": 16, "int8": 8, "sign": 1, "local": 16, "local4": 4}[code]
    block = None if bits == 16 else 256
    return compressed.coded(numbers=P, ranks=nodes, bits=bits, block=block) / H


def _coding(shape: specs.Model, code: str) -> float:
    """Seconds of a GPU with an eighth of the node's numbers."""
    memory = specs.find_device("h100-sxm").memory_bandwidth
    return MOVED[code] * shape.parameters / GPUS / memory


def _even(full: float, less: float, seconds: float) -> str:
    if not seconds:
        return "every link" if less < full else "nothing is saved"
    try:
        return says.rate(compressed.break_even(full=full, less=less, seconds=seconds))
    except InputError:
        return "no link: it sends more"


def _curve(shape: specs.Model, code: str, nodes: int, H: int, link: float) -> str:
    compute = _compute(shape)
    seconds = {"bf16, every step": (0.0, _sent(shape, "bf16", nodes, 1))}
    seconds["your choice"] = _coding(shape, code) / H, _sent(shape, code, nodes, H)
    curves = {
        name: [
            (8 * W / 1e9, 100 * compressed.utilization(compute=compute, sending=c + s / W))
            for _, W in LINKS
        ]
        for name, (c, s) in seconds.items()
    }
    return plot.lines(
        curves,
        title="Time in which GPUs compute",
        x_title="Gbit/s of a node's link",
        y_title="%",
        show_x=says.short,
        show_y=says.short,
        log_x=True,
        mark=8 * link / 1e9,
        mark_label="your link",
    )
