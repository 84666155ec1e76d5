"""Experiments of the zero chapter: what each stage needs and sends, and a step on two clocks."""

from collections.abc import Mapping

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import zero_rank
from mathlib.parts import Parts
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Toggle, doubling, experiment
from mathlib.specs import Layout
from mathlib.traffic import sharded_time, volumes

MODELS = ("gpt2-xl", "llama2-7b", "llama3-8b", "llama2-13b", "gpt-neox-20b", "llama2-70b")
DEVICES = ("v100-16gb", "v100-32gb", "a100-40gb", "a100-80gb", "h100-sxm", "h200-sxm")
PEAK = specs.find_device("h100-sxm").flops_per_second("bf16")
WIRE = {"gather": "weights", "scatter": "gradients"}  # what a message carries
STAGES = {0: "no sharding", 1: "stage 1", 2: "stage 2", 3: "stage 3"}


@experiment(
    "shards",
    "Four ways to share the states",
    Choice("model", "Model", specs.titled("models", MODELS), "llama2-7b"),
    doubling("ranks", "Ranks", 1, 1024, 64),
    doubling("micro_batches", "Micro-batches of a step", 1, 64, 1),
    Choice("device", "Device", specs.titled("devices", DEVICES), "a100-80gb"),
    doubling("sequences", "Sequences in a micro-batch", 1, 16, 1),
    Toggle("recompute", "Recompute all activations", True),
    code=(zero_rank.peak, volumes.zero),
)
def shards(
    model: str, ranks: int, micro_batches: int, device: str, sequences: int, recompute: bool
) -> str:
    chip, P, m = specs.find_device(device), params.count(model).total, micro_batches
    needed, sent = {}, {}
    for stage in STAGES:
        layout = Layout(
            data=ranks,
            zero=stage,
            micro_batch=sequences,
            micro_batches=m,
            recompute="full" if recompute else "none",
        )
        needed[stage] = _grouped(zero_rank.peak(model, layout, scatter="reduce-scatter"))
        sent[stage] = volumes.zero(parameters=P, data=ranks, stage=stage, micro_batches=m)
    bars, wires = _rows({z: needed[z] for z in needed if z}), _rows(sent)
    memory = svg.bars(
        bars,
        title="What a device needs at its fullest moment",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )
    wire = svg.bars(wires, title="What a rank sends in a step", show=says.size)
    fits = [stage for stage, parts in needed.items() if parts.total <= chip.room]
    alone = f"<p>Without sharding a device needs {says.size(needed[0].total)}.</p>"
    return _said(fits, sent) + alone + memory + wire + _law(P, ranks, m, sent[3].total)


GROUPS = {  # what stands together in a bar
    "weights": ("weights", "live layer", "prefetched layers", "outside the layers", "padding"),
    "gradients": ("gradients", "gradients that wait", "new gradients"),
    "in flight": ("rows in flight",),
    "optimizer states": ("master weights", "optimizer states", "update"),
    "activations": ("activations", "recomputation", "working tensors"),
    "logits": ("gradients of logits", "logits"),
}


def _grouped(parts: Parts) -> Parts:
    """The parts of a moment, few enough to tell apart; nothing is left out."""
    home = {name: group for group, names in GROUPS.items() for name in names}
    found = dict.fromkeys(GROUPS, 0.0)
    for name in parts:
        found[home[name]] += parts.amount(name)
    return Parts(parts.title, "byte", found)


def _rows(stages: Mapping[int, Parts]) -> list[svg.Row]:
    """A bar for each stage, without the parts that are nothing."""
    return [
        (STAGES[stage], {part: parts.amount(part) for part in parts if parts.amount(part)})
        for stage, parts in stages.items()
    ]


def _said(fits: list[int], sent: Mapping[int, Parts]) -> str:
    """Which is the first stage that fits, and what it costs on the wire."""
    if not fits:
        return '<p class="mlx-say">No stage fits: what is too much is not the states alone.</p>'
    first = fits[0]
    ratio = sent[first].total / sent[0].total if sent[0].total else 1.0
    return (
        f'<p class="mlx-say"><b>{STAGES[first].capitalize()}</b> is the first that fits, and sends '
        f"<b>{says.ratio(ratio)} times</b> the bytes of data parallelism.</p>"
    )


def _law(P: float, N: int, m: int, total: float) -> str:
    return "<p>Stage 3, with weights and gradients of two bytes:</p>" + equation(
        "Q = 3 * m * K * (N - 1) / N",
        Q=(total, says.size(total)),
        m=m,
        K=(2 * P, says.size(2 * P)),
        N=N,
    )


@experiment(
    "sharded-step",
    "A step on two clocks",
    Choice("stage", "ZeRO stage", (("1", 1), ("2", 2), ("3", 3)), 3),
    doubling("tokens", "Tokens of a micro-batch", 256, 32768, 2048),
    Toggle("prefetch", "Prefetch the next layer", True),
    doubling("micro_batches", "Micro-batches of a step", 1, 4, 1),
    doubling("ranks", "Ranks", 2, 512, 64),
    doubling("gigabits", "Link of the ring, one direction", 25, 3200, 3200, "Gbit/s"),
    doubling("latency", "Latency of a message", 1, 64, 8, "µs"),
    code=(sharded_time.step,),
)
def sharded_step(
    stage: int,
    tokens: int,
    prefetch: bool,
    micro_batches: int,
    ranks: int,
    gigabits: int,
    latency: int,
) -> str:
    model, X = specs.find_model("llama2-7b"), 0.4 * PEAK
    P = params.count(model).total
    forward = 2 * P * tokens / X
    found = sharded_time.step(
        stage=stage,
        layers=model.layers,
        ranks=ranks,
        forward=forward,
        backward=2 * forward,
        weights=2 * P,
        bandwidth=gigabits * 1e9 / 8,
        latency=latency * 1e-6,
        prefetch=int(prefetch),
        micro_batches=micro_batches,
    )
    rows = [
        ("rank", [(span.what.split()[0], *span[1:], span.what) for span in found.compute]),
        ("wire", [(WIRE[span.what.split()[0]], *span[1:], span.what) for span in found.wire]),
    ]
    chart = svg.timeline(rows, title="Llama 2 7B on H100s", show=says.time, axis_title="time")
    return (
        f'<p class="mlx-say">The rank waits <b>{says.time(found.exposed)}</b> of '
        f"{says.time(found.seconds)}; {found.hidden:.0%} of the communication is hidden.</p>{chart}"
    )
