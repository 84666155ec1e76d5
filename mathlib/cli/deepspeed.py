"""DeepSpeed's JSON file: which option each key stands for. What is "auto" there has to be said."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mathlib.checks import InputError
from mathlib.cli.flags import number, unknown
from mathlib.cli.typed import Typed, spelled
from mathlib.from_config.files import contents, parsed
from mathlib.specs import table

NUMBERS = {
    "zero_optimization.stage": "zero",
    "zero_optimization.mics_shard_size": "shard",
    "train_micro_batch_size_per_gpu": "micro_batch",
    "gradient_accumulation_steps": "micro_batches",
    "tensor_parallel.autotp_size": "tensor",
}
HALF = ("bf16", "fp16")
OPTIMIZERS = ("adam", "adamw", "cpuadam", "fusedadam")
OFFLOAD = {  # what waits where such a key says
    "zero_optimization.offload_optimizer.device": "states",
    "zero_optimization.offload_param.device": "parameters",
}


def read(typed: Typed, path: str) -> Any:
    """Put what the file says in place of what was not typed; the sequences of a step, if told."""
    where = f"--deepspeed {path}"
    config, away = parsed(contents(path, where, "JSON"), where), dict[str, str]()
    for name, value in _leaves(config):
        if value == "auto":
            _auto(typed, path, name)
        elif name in NUMBERS:
            typed.take(NUMBERS[name], number(name, [str(value)]), name)
        elif name in OFFLOAD and value in ("cpu", "nvme"):
            away[name] = value
        elif _weighs(name, value):
            typed.uncounted.append(f"{name} {json.dumps(value)}")
        elif name not in ("bf16.enabled", "fp16.enabled", "train_batch_size"):
            _rest(typed, name)
    _offload(typed, away)
    _recipe(typed, config)
    batch = config.get("train_batch_size", "auto")
    return None if batch == "auto" else number("train_batch_size", [str(batch)])


def _auto(typed: Typed, path: str, name: str) -> None:
    """What the trainer fills in, which the file does not know."""
    option = "recipe" if name.partition(".")[0] in HALF else NUMBERS.get(name, "")
    option = "offload" if name in OFFLOAD else option
    if typed.knows(option) and option not in typed.given | typed.read.keys():
        told = f"is auto there, so its trainer decides; say {spelled(option)}"
        raise InputError(f"--deepspeed {path}: {name} {told}")
    typed.ignored.append(f"{name} (auto)")


def _offload(typed: Typed, away: Mapping[str, str]) -> None:
    """What waits, and what of it on drives, where a command can tell of it; parameters never wait
    alone.
    """
    kinds = {OFFLOAD[name]: value for name, value in away.items()}
    if typed.knows("on_nvme") and "states" in kinds:
        wider = max(away, key=lambda name: OFFLOAD[name] == "parameters")
        typed.take("offload", OFFLOAD[wider], wider)
        if drives := [name for name, value in away.items() if value == "nvme"]:
            typed.take("on_nvme", tuple(OFFLOAD[name] for name in drives), drives[0])
    elif kinds == {"states": "cpu"}:
        typed.take("offload", "states", next(iter(away)))
    else:
        typed.uncounted += [f"{name} {json.dumps(value)}" for name, value in away.items()]


def _weighs(name: str, value: Any) -> bool:
    """Whether a key changes memory or time and is not modelled."""
    if name == "optimizer.type":
        return str(value).lower() not in OPTIMIZERS
    neutral = table("launches")["deepspeed"]["weighs"].get(name)
    return neutral is not None and value not in neutral


def _rest(typed: Typed, name: str) -> None:
    """A key that has no part, or that DeepSpeed lacks; an optimizer's own words are its own."""
    known = set(table("launches")["deepspeed"]["flags"])
    inner = name.partition(".params.")[0].split(".")
    wrong = next((word for word in inner if word not in known), "")
    if wrong:
        unknown(typed, "deepspeed", wrong, name)
    else:
        typed.ignored.append(name)


def _recipe(typed: Typed, config: Mapping[str, Any]) -> None:
    """16-bit weights beside Adam's wide copies, or all in fp32; a wider or narrower one of the
    same weights may be typed.
    """
    enabled = {kind: (config.get(kind) or {}).get("enabled", False) for kind in HALF}
    if "auto" in enabled.values():
        return  # which somebody said, or it would have been asked for
    half = [kind for kind in HALF if enabled[kind] is True]
    flag = f"{half[0]}.enabled" if half else "neither bf16 nor fp16"
    if "recipe" in typed.given and "recipe" not in typed.read:
        weights = table("recipes").get(typed.value("recipe"), {}).get("weights")
        if weights is None or (weights != "fp32") == bool(half):
            return
    typed.take("recipe", "mixed-adam" if half else "adam-fp32", flag)


def _leaves(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """zero_optimization.stage, 3."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield before + name, value
