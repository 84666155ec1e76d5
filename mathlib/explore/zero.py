"""The experiment of the zero chapter: what each stage needs on a device and sends in a step."""

from collections.abc import Mapping

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import fit
from mathlib.parts import Parts
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Toggle, doubling, experiment
from mathlib.specs import Layout
from mathlib.traffic import volumes

MODELS = ("gpt2-xl", "llama2-7b", "llama3-8b", "llama2-13b", "gpt-neox-20b", "llama2-70b")
DEVICES = ("v100-16gb", "v100-32gb", "a100-40gb", "a100-80gb", "h100-sxm", "h200-sxm")
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
    code=(fit.training, volumes.zero),
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
        needed[stage] = fit.training(model, layout)
        sent[stage] = volumes.zero(parameters=P, data=ranks, stage=stage, micro_batches=m)
    bars, wires = _rows(needed), _rows(sent)
    memory = svg.bars(
        bars,
        title="What a device needs at its fullest moment",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )
    wire = svg.bars(wires, title="What a rank sends in a step", show=says.size)
    fits = [stage for stage, parts in needed.items() if parts.total <= chip.room]
    return _said(fits, sent) + memory + wire + _law(P, ranks, m, sent[3].total)


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
