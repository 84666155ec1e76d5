"""Settings of Hugging Face's accelerate, of a launch line or of the YAML that `accelerate config`
writes: a key is the same in both, and its section in the file has no part.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mathlib.checks import InputError
from mathlib.cli.flags import number, unknown
from mathlib.cli.typed import Typed
from mathlib.from_config.files import contents
from mathlib.specs import table

Said = dict[str, str]  # by name with hyphens

LARGEST = 10_000  # bytes; what is nested takes PyYAML the square of its length
NUMBERS = {
    "zero-stage": "zero",
    "gradient-accumulation-steps": "micro_batches",
    "megatron-lm-tp-degree": "tensor",
    "megatron-lm-pp-degree": "pipeline",
    "megatron-lm-num-micro-batches": "micro_batches",
    "parallelism-config-tp-size": "tensor",
    "parallelism-config-cp-size": "context_parallel",
    "parallelism-config-dp-shard-size": "shard",
}
SWITCHES: dict[str, tuple[str, Any]] = {
    "fsdp-activation-checkpointing": ("recompute", "full"),
    "megatron-lm-sequence-parallelism": ("sequence_parallel", True),
    "megatron-lm-recompute-activations": ("recompute", "selective"),
    "megatron-lm-use-distributed-optimizer": ("zero", 1),
}
STRATEGIES = {  # ZeRO stage, and whether it shards inside a node alone
    **dict.fromkeys(("full_shard", "1", "true"), (3, False)),
    **dict.fromkeys(("shard_grad_op", "2", "false"), (2, False)),
    **dict.fromkeys(("no_shard", "3"), (0, False)),
    **dict.fromkeys(("hybrid_shard", "4"), (3, True)),
    **dict.fromkeys(("hybrid_shard_zero2", "5"), (2, True)),
}
KINDS = {"fsdp": "fsdp", "deepspeed": "deepspeed", "megatron_lm": "megatron-core"}
ELSEWHERE = ("mixed-precision", "num-machines", "num-processes", "distributed-type", "fsdp-version")


def file(option: str, path: str) -> Said:
    """A YAML file's keys."""
    try:
        import yaml  # nothing else needs it
    except ImportError:
        raise InputError(f"{option} {path}: needs PyYAML (pip install pyyaml)") from None
    text = contents(path, f"{option} {path}", "YAML", LARGEST)
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise InputError(f"{option} {path}: expected a YAML file without aliases")
        found = yaml.safe_load(text)
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InputError(f"{option} {path}: expected a YAML file") from None
    if not isinstance(found, dict):
        raise InputError(f"{option} {path}: expected a YAML file of keys and values")
    return dict(_leaves(found))


def _leaves(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        elif value is not None:
            yield (
                str(name).replace("_", "-"),
                str(value).lower() if value in (True, False) else str(value),
            )


def read(typed: Typed, said: Said) -> int:
    """Put what the settings say in place of what was not typed; how many processes there are."""
    row, kind = table("launches")["accelerate"], _kind(said)
    for name, value in said.items():
        flag = name.replace("-", "_")
        if name not in row["flags"]:
            unknown(typed, "accelerate", name, name)
        elif name in NUMBERS:
            typed.take(NUMBERS[name], number(flag, [value]), flag)
        elif name in SWITCHES:
            if value.lower() in ("true", "", "yes"):
                typed.take(*SWITCHES[name], flag)
        elif name in row["weighs"] and value.lower() not in row["weighs"][name]:
            typed.uncounted.append(f"{flag} {value}")
        elif (name, value.lower()) == ("offload-optimizer-device", "cpu"):
            typed.take("offload", "states", flag)
        elif name not in ELSEWHERE and name not in (
            "fsdp-sharding-strategy",
            "fsdp-reshard-after-forward",
        ):
            typed.ignored.append(flag)
    _precision(typed, said, kind)
    if kind == "deepspeed" and "zero-stage" not in said and "deepspeed-config-file" not in said:
        typed.assume("zero", 2, "zero_stage 2")
    if kind == "fsdp":
        _sharded(typed, said)
    program = KINDS.get(kind, "fsdp")
    eager = program == "fsdp" and _word(said, "dynamo-backend") == "no"
    typed.default("program", "fsdp-eager" if eager else program)
    return number("num_processes", [said["num-processes"]]) if "num-processes" in said else 0


def _word(said: Said, name: str) -> str:
    """A word in small letters; what YAML takes for false is no."""
    return said.get(name, "no").lower().replace("false", "no")


def _kind(said: Said) -> str:
    """fsdp, deepspeed, megatron_lm, or nothing of these."""
    kind = said.get("distributed-type", "").lower()
    used = [name for name in KINDS if f"use-{name.replace('_', '-')}" in said]
    return used[0] if used else kind


def _precision(typed: Typed, said: Said, kind: str) -> None:
    """DeepSpeed and Megatron-LM keep weights in 16 bits; else autocast leaves them in fp32."""
    word = _word(said, "mixed-precision")
    if word == "fp8" and typed.knows("precision"):
        typed.take("precision", "fp8", "mixed_precision")
    elif word == "fp8":
        typed.uncounted.append("mixed_precision fp8")
    if "deepspeed-config-file" not in said:
        half = word != "no" and kind in ("deepspeed", "megatron_lm")
        typed.take("recipe", "mixed-adam" if half else "adam-fp32", f"mixed_precision {word}")


def _sharded(typed: Typed, said: Said) -> None:
    """The stage of ZeRO that a strategy is, and the ranks of a node where it is hybrid."""
    name = next(
        (n for n in ("fsdp-sharding-strategy", "fsdp-reshard-after-forward") if n in said), ""
    )
    word = said.get(name, "full_shard").lower()
    if word not in STRATEGIES:
        raise InputError(f"{name} {word}: expected one of {', '.join(STRATEGIES)}")
    zero, hybrid = STRATEGIES[word]
    typed.take("zero", zero, name.replace("-", "_") or "fsdp")
    if hybrid and "num-processes" not in said:
        raise InputError(f"{name} {word}: shards in a node; say num_processes and num_machines")
    if hybrid:
        world, nodes = (number(n, [said.get(n, "1")]) for n in ("num-processes", "num-machines"))
        typed.take("shard", world // nodes, name.replace("-", "_"))
