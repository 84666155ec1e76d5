"""The experiment of the chapter after: what fits on how many GPUs, with which roles where."""

from typing import Any

from mathlib import specs
from mathlib.memory import adapters, fit, preference
from mathlib.parts import Part, Parts
from mathlib.show import says, svg
from mathlib.show.experiments import Choice, doubling, experiment
from mathlib.show.tables import table

MODELS = ("llama3.2-1b", "llama3.2-3b", "llama3-8b", "llama2-13b", "llama2-70b", "llama3-70b")
METHODS = (
    *(("full tuning", "full"), ("LoRA", "lora"), ("QLoRA", "qlora")),
    *(("DPO", "dpo"), ("GRPO", "grpo"), ("PPO", "ppo")),
)
PLACES = (("together", "together"), ("a quarter only writes", "split"), ("offloaded", "offload"))
DEVICES = ("rtx-4090", "a100-40gb", "a100-80gb", "h100-sxm", "h200-sxm", "b200-sxm")
RANK, RESERVE = 16, 7e9  # of adapters; more than any of Qwen's LoRA runs needed beside formulas


@experiment(
    "after-pretraining",
    "What fits after pretraining",
    Choice("method", "Method", METHODS, "ppo"),
    Choice("model", "Model", specs.titled("models", MODELS), "llama3-8b"),
    doubling("devices", "GPUs", 1, 64, 8),
    doubling("tokens", "Tokens of prompt and reply", 256, 32768, 4096),
    Choice("place", "Roles", PLACES, "together"),
    doubling("sequences", "Replies that a GPU writes at once", 1, 256, 64),
    Choice("device", "Device", specs.titled("devices", DEVICES), "a100-80gb"),
    code=(adapters.sharded, preference.split),
)
def after_pretraining(
    method: str, model: str, devices: int, tokens: int, place: str, sequences: int, device: str
) -> str:
    chip = specs.find_device(device)
    found = phases(method, model, devices, tokens, place, sequences)
    name, most = max(found.items(), key=lambda one: one[1].total)
    verdict = fit.fits(most, chip, reserve=RESERVE)
    room = says.size(chip.room - RESERVE)
    word = "fits" if verdict else "does not fit"
    say = (
        f'<p class="mlx-say"><b>It {word}</b>: a GPU needs {says.size(most.total)} while {name}, '
        f"and has {room} when {says.size(RESERVE)} are left for context, buffers and fragments.</p>"
    )
    bars = svg.bars(
        [(one, _flat(parts)) for one, parts in found.items()],
        title="A GPU by phase",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )
    rows = [[one, says.size(p.total), _judged(p, chip)] for one, p in found.items()]
    return say + bars + table(["phase", "a GPU needs", "verdict"], rows)._repr_html_()


def _judged(parts: Parts, chip: specs.Device) -> str:
    return "fits" if fit.fits(parts, chip, reserve=RESERVE) else "too much"


def phases(
    method: str, model: str, devices: int, tokens: int, place: str, sequences: int
) -> dict[str, Parts]:
    """Bytes of a GPU in each phase; one phase where nobody but the model takes part."""
    how: dict[str, Any] = {"tokens": tokens, "recompute": "full"}
    if method == "full":
        return {"training": fit.sharded(model, devices=devices, **how)}
    if method in ("lora", "qlora"):
        four = method == "qlora"  # bits, which FSDP leaves whole
        own: dict[str, Any] = {"rank": RANK, "quantised": four, "whole_bits": four}
        return {"training": adapters.sharded(model, devices=devices, **own, **how)}
    roles: dict[str, Any] = {"method": method, "devices": devices, "tokens": tokens}
    if method in preference.WRITES:
        roles["sequences"] = sequences
        if place == "split":
            return preference.split(model, writers=max(1, devices // 4), **roles)
    return preference.phases(model, offload=place == "offload", **roles)


def _flat(parts: Parts) -> dict[str, float]:
    """The parts of a bar, its smallest together."""
    sizes = {name: _size(parts[name]) for name in parts}
    small = [name for name, size in sizes.items() if size < 0.02 * parts.total]
    kept = {name: size for name, size in sizes.items() if name not in small}
    return kept | ({"other": sum(sizes[name] for name in small)} if small else {})


def _size(part: Part) -> float:
    return part.total if isinstance(part, Parts) else part
