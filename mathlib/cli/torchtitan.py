"""torchtitan's TOML file: which option each key stands for, with torchtitan's own defaults."""

from typing import Any

from mathlib.checks import InputError
from mathlib.cli.flags import number, unknown
from mathlib.cli.typed import Typed
from mathlib.from_config.files import toml
from mathlib.specs import table

NUMBERS = {
    "training.local_batch_size": "micro_batch",
    "training.batch_size": "micro_batch",
    "training.seq_len": "tokens",
    "parallelism.tensor_parallel_degree": "tensor",
    "parallelism.pipeline_parallel_degree": "pipeline",
    "parallelism.context_parallel_degree": "context_parallel",
    "parallelism.expert_parallel_degree": "expert",
    "parallelism.expert_tensor_parallel_degree": "expert_tensor",
}
MODE = "activation_checkpoint.mode"
KIND = "activation_checkpoint.selective_ac_option"  # "op", or every how many layers
ELSEWHERE = (
    *("model.name", "model.flavor", "model.converters", "training.global_batch_size"),
    *("training.dtype", "parallelism.data_parallel_replicate_degree", MODE, KIND),
    *("parallelism.data_parallel_shard_degree", "parallelism.fsdp_reshard_after_forward"),
    *("compile.enable", "training.compile", "parallelism.pipeline_parallel_schedule"),
)


def read(typed: Typed, path: str) -> int:
    """Put what the file says in place of what was not typed; the sequences of a step, or 0."""
    said, row = _flat(path), table("launches")["torchtitan"]
    sections = {name.partition(".")[0] for name in row["flags"]}
    for name, value in said.items():
        if name in NUMBERS:
            typed.take(NUMBERS[name], number(name, [str(value)]), name)
        elif name in row["weighs"] and str(value).lower() not in row["weighs"][name]:
            typed.uncounted.append(f"{name} {value}")
        elif name not in row["flags"] and name.partition(".")[0] in sections:
            unknown(typed, "torchtitan", name, name)
        elif name not in ELSEWHERE:
            typed.ignored.append(name)
    _model(typed, said)
    _recomputed(typed, said)
    _numbers(typed, said)
    _sharded(typed, said)
    if said.get("parallelism.tensor_parallel_degree", 1) > 1:
        typed.take("sequence_parallel", True, "parallelism.tensor_parallel_degree")
    compiled = said.get("compile.enable", said.get("training.compile", False))
    typed.default("program", "fsdp" if compiled else "fsdp-eager")
    batch = said.get("training.global_batch_size", -1)
    return int(batch) if batch > 0 else 0


def _flat(path: str) -> dict[str, Any]:
    found = toml(path, f"--torchtitan {path}")
    sections = {name: row for name, row in found.items() if isinstance(row, dict)}
    return {f"{name}.{key}": value for name, row in sections.items() for key, value in row.items()}


def _model(typed: Typed, said: dict[str, Any]) -> None:
    """llama3 of flavor 8B is llama3-8b, where no other model is named."""
    name = f"{said.get('model.name', '')}-{said.get('model.flavor', '')}".lower()
    if typed.value("model") is None and typed.value("config") is None:
        if name in table("models") and typed.knows("model"):
            typed.take("model", name, "model.name")
    elif name in table("models") and typed.value("model") not in (name, None):
        raise InputError(f"model {typed.value('model')} and model.name ({name}) differ")


def _recomputed(typed: Typed, said: dict[str, Any]) -> None:
    """None, all, or by operation; every second layer is its default, and is not modelled."""
    mode, kind = str(said.get(MODE, "selective")), str(said.get(KIND, "2"))
    if mode in ("none", "full") or (mode, kind) == ("selective", "op"):
        typed.take("recompute", mode, MODE)
    elif mode != "selective":
        raise InputError(f"{MODE} {mode}: expected none, selective or full")
    elif "recompute" not in typed.given:
        typed.uncounted.append(f"{KIND} {kind} (or say --recompute none or full)")


def _numbers(typed: Typed, said: dict[str, Any]) -> None:
    """Weights, gradients and states of training.dtype; matmuls of 8 bits by a converter."""
    word = said.get("training.dtype", "float32")
    recipe = "adam-bf16" if word == "bfloat16" else "adam-fp32"
    typed.take("recipe", recipe, f"training.dtype {word}")
    converters = said.get("model.converters", [])
    if any("float8" in one or "mx" in one for one in converters):
        if typed.knows("precision"):
            typed.take("precision", "fp8", "model.converters")
        else:
            typed.uncounted.append(f"model.converters {', '.join(converters)}")


def _sharded(typed: Typed, said: dict[str, Any]) -> None:
    """FSDP over all replicas or over a group of them; with a pipeline weights stay gathered."""
    copies = said.get("parallelism.data_parallel_replicate_degree", 1)
    name = "parallelism.data_parallel_shard_degree"
    group = said.get(name, -1)
    policy = said.get("parallelism.fsdp_reshard_after_forward", "default")
    stays = policy == "never" or (policy == "default" and (typed.value("pipeline") or 1) > 1)
    typed.take("zero", 0 if group == 1 else 2 if stays else 3, name)
    if group > 0:
        typed.take("data", copies * group, name)
        if group > 1 and copies > 1:
            typed.take("shard", group * (typed.value("context_parallel") or 1), name)
    elif typed.knows("data") and typed.value("torchrun") is None and "data" not in typed.given:
        raise InputError(f"{name} {group}: takes all devices; say --data or --torchrun how many")
    elif copies > 1:
        typed.uncounted.append(f"{name} -1 (say how many, with {copies} replicas)")
    schedule = str(said.get("parallelism.pipeline_parallel_schedule", "1F1B"))
    if schedule.lower() != "1f1b" and (typed.value("pipeline") or 1) > 1:
        typed.uncounted.append(f"parallelism.pipeline_parallel_schedule {schedule}")
