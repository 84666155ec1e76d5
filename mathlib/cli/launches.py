"""Flags of Megatron-LM, DeepSpeed and torchrun read as they are: which option each one stands for.

What is not among these has no part in an answer and is named as ignored, and what the program's own
list (data/launches.toml) lacks as unknown.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mathlib.checks import InputError, ceil_div
from mathlib.cli.typed import Typed
from mathlib.specs import Experts, table

Flags = dict[str, list[str]]  # by name, without its dashes: the words behind it

MEGATRON_NUMBERS = {
    "num-layers": "layers",
    "hidden-size": "width",
    "num-attention-heads": "heads",
    "kv-channels": "head_dim",
    "ffn-hidden-size": "ffn_width",
    "vocab-size": "vocab",
    "padded-vocab-size": "padded_vocab",
    "max-position-embeddings": "context",
    "seq-length": "tokens",
    "tensor-model-parallel-size": "tensor",
    "pipeline-model-parallel-size": "pipeline",
    "context-parallel-size": "context_parallel",
    "expert-model-parallel-size": "expert",
    "expert-tensor-parallel-size": "expert_tensor",
    "num-virtual-stages-per-pipeline-rank": "chunks",
    "micro-batch-size": "micro_batch",
}
MEGATRON_SWITCHES: dict[str, dict[str, Any]] = {
    "sequence-parallel": {"sequence_parallel": True},
    "swiglu": {"gated": True},
    "untie-embeddings-and-output-weights": {"tied": False},
    "disable-bias-linear": {"qkv_bias": False, "output_bias": False, "mlp_bias": False},
    "add-qkv-bias": {"qkv_bias": True},
    "recompute-activations": {"recompute": "selective"},
    "use-distributed-optimizer": {"zero": 1},
    "optimizer-cpu-offload": {"offload": "states"},
    "use-flash-attn": {"attention": "flash"},
    "bf16": {"recipe": "mixed-adam-fp32-gradients"},
    "accumulate-allreduce-grads-in-fp32": {"recipe": "mixed-adam-fp32-gradients"},
}
MEGATRON_WORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "recompute-granularity": ("recompute", {"full": "full", "selective": "selective"}),
    "position-embedding-type": (
        "positions",
        {"learned_absolute": "learned", "rope": "rotary", "relative": "relative", "none": "none"},
    ),
    "normalization": ("norm", {"LayerNorm": "layernorm", "RMSNorm": "rmsnorm"}),
    "attention-backend": (
        "attention",
        {"flash": "flash", "fused": "flash", "auto": "flash", "unfused": "standard"},
    ),
    "data-parallel-sharding-strategy": (
        "zero",
        {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3},
    ),
}
EXPERTS = {
    "num-experts": "routed",
    "moe-router-topk": "active",
    "moe-ffn-hidden-size": "width",
}
DEEPSPEED_NUMBERS = {
    "zero_optimization.stage": "zero",
    "zero_optimization.mics_shard_size": "shard",
    "train_micro_batch_size_per_gpu": "micro_batch",
    "gradient_accumulation_steps": "micro_batches",
    "tensor_parallel.autotp_size": "tensor",
}
TORCHRUN_SWITCHES = ("standalone", "no-python", "module", "m", "run-path")
LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch")


def read(typed: Typed) -> None:
    """Put what the flags say in place of what was not typed."""
    world, script = _torchrun(typed) if typed.torchrun else (0, [])
    megatron = _flags([*script, *shlex.split(typed.megatron or "", comments=True)], "--megatron")
    if typed.megatron or any(name in table("launches")["megatron"]["flags"] for name in megatron):
        _megatron(typed, megatron)
    else:
        typed.ignored += [f"--{name}" for name in megatron]
    if typed.deepspeed:
        _deepspeed(typed, typed.deepspeed)
    if world:
        _spread(typed, world)
    batch = "global-batch-size"
    if batch in megatron:
        _batch(typed, batch, _number(batch, megatron[batch]))


def _batch(typed: Typed, flag: str, sequences: int) -> None:
    """Micro-batches of a layout that is given, or the batch of one that is looked for."""
    if typed.knows("batch"):
        typed.take("batch", sequences, f"--{flag}")
    else:
        each = _degree(typed, "micro_batch") * _degree(typed, "data")
        _divided(typed, "micro_batches", flag, sequences, each)


def _degree(typed: Typed, name: str) -> int:
    """A degree; 1 where the command has none."""
    return int(typed.value(name) or 1)


def _flags(words: Sequence[str], option: str) -> Flags:
    """--name value value as {name: [value, value]}."""
    found: Flags = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = [value] if value else []
        elif name:
            found[name].append(word)
        elif word != "\\":
            raise InputError(f"{option} {word}: expected flags, each with -- before it")
    return found


def _number(name: str, values: Sequence[str]) -> int:
    """The one whole number behind a flag."""
    if len(values) == 1 and values[0].replace("_", "").isdigit():
        return int(values[0])
    raise InputError(f"--{name} {' '.join(values)}: expected a whole number")


def _megatron(typed: Typed, flags: Flags) -> None:
    known = set(table("launches")["megatron"]["flags"])
    special: dict[str, Callable[[Typed, Flags], None]] = {
        "num-query-groups": _groups,
        "num-experts": _experts,
        "hidden-dropout": _dropout,
        "num-layers-per-virtual-pipeline-stage": _chunks,
        "make-vocab-size-divisible-by": _padded,
    }
    with_others = {"group-query-attention", "attention-dropout", "global-batch-size", *EXPERTS}
    for name, values in flags.items():
        flag = f"--{name}"
        if name in MEGATRON_NUMBERS:
            typed.take(MEGATRON_NUMBERS[name], _number(name, values), flag)
        elif name in MEGATRON_SWITCHES:
            for option, value in MEGATRON_SWITCHES[name].items():
                typed.take(option, value, flag)
        elif name in MEGATRON_WORDS:
            _word(typed, name, values)
        elif name in special or name in with_others:
            continue
        elif name in known:
            typed.ignored.append(flag)
        else:
            typed.unknown.append(flag)
    for name, reads in special.items():
        if name in flags:
            reads(typed, flags)


def _word(typed: Typed, name: str, values: Sequence[str]) -> None:
    option, words = MEGATRON_WORDS[name]
    word = " ".join(values)
    if word not in words:
        raise InputError(f"--{name} {word}: expected one of {', '.join(words)}")
    typed.take(option, words[word], f"--{name}")


def _groups(typed: Typed, flags: Flags) -> None:
    """Query groups, which count only with --group-query-attention."""
    if "group-query-attention" in flags:
        groups = _number("num-query-groups", flags["num-query-groups"])
        typed.take("kv_heads", groups, "--num-query-groups")
    else:
        typed.ignored.append("--num-query-groups (without --group-query-attention)")


def _experts(typed: Typed, flags: Flags) -> None:
    """A mixture: two experts a token and the width of the MLP where nothing is said."""
    said = {field: _number(n, flags[n]) for n, field in EXPERTS.items() if n in flags}
    width = typed.value("ffn_width") or 4 * (typed.value("width") or 0)
    if not width and "width" not in said:
        raise InputError("--num-experts: needs --moe-ffn-hidden-size or --ffn-hidden-size")
    fields: dict[str, Any] = {"active": 2, "width": width} | said
    typed.take("experts", Experts(**fields), "--num-experts")


def _dropout(typed: Typed, flags: Flags) -> None:
    """Dropout's masks are gone where both rates are 0; 0.1 is their default."""
    both = [flags.get(name, ["0.1"]) for name in ("hidden-dropout", "attention-dropout")]
    dropped = any(float(rate[0]) > 0 for rate in both if rate)
    typed.take("dropout", dropped, "--hidden-dropout")


def _chunks(typed: Typed, flags: Flags) -> None:
    """Chunks of a stage from the layers of each."""
    name = "num-layers-per-virtual-pipeline-stage"
    if not typed.value("layers"):
        raise InputError(f"--{name}: needs --num-layers, or say --chunks instead")
    each = _degree(typed, "pipeline") * _number(name, flags[name])
    _divided(typed, "chunks", name, typed.value("layers"), each)


def _padded(typed: Typed, flags: Flags) -> None:
    """Rows of the table: the next multiple of so many for each tensor rank."""
    name = "make-vocab-size-divisible-by"
    step = _number(name, flags[name]) * _degree(typed, "tensor")
    if typed.value("vocab"):
        typed.take("padded_vocab", step * ceil_div(typed.value("vocab"), step), f"--{name}")
    else:
        typed.ignored.append(f"--{name} (without --vocab-size)")


def _divided(typed: Typed, option: str, flag: str, whole: int, by: int) -> None:
    """An option that two numbers make; refused where it is no whole number."""
    if whole % by:
        raise InputError(f"--{flag}: {whole} is no multiple of {by}, so {option} is no number")
    typed.take(option, whole // by, f"--{flag}")


def _deepspeed(typed: Typed, path: str) -> None:
    config = _json(path)
    known = set(table("launches")["deepspeed"]["flags"])
    for name, value in _leaves(config):
        if value == "auto":
            typed.ignored.append(f"{name} (auto)")
        elif name in DEEPSPEED_NUMBERS:
            typed.take(DEEPSPEED_NUMBERS[name], _number(name, [str(value)]), name)
        elif name in ("bf16.enabled", "fp16.enabled", "train_batch_size"):
            continue
        elif (name, value) == ("zero_optimization.offload_optimizer.device", "cpu"):
            typed.take("offload", "states", name)
        else:
            inner = name.partition(".params.")[0]  # an optimizer's own words are its own
            (typed.ignored if known.issuperset(inner.split(".")) else typed.unknown).append(name)
    half = [kind for kind in ("bf16", "fp16") if config.get(kind, {}).get("enabled") is True]
    recipe = "mixed-adam" if half else "adam-fp32"
    typed.take("recipe", recipe, f"{half[0]}.enabled" if half else "neither bf16 nor fp16")
    batch = config.get("train_batch_size", "auto")
    if batch != "auto":
        each = _degree(typed, "micro_batch") * _degree(typed, "micro_batches")
        _divided(typed, "data", "train_batch_size", batch, each)


def _json(path: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except OSError as why:
        raise InputError(f"--deepspeed {path}: cannot be read ({why.strerror})") from None
    except ValueError:
        raise InputError(f"--deepspeed {path}: expected a JSON file") from None
    if not isinstance(found, dict):
        raise InputError(f"--deepspeed {path}: expected a JSON object")
    return found


def _leaves(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """zero_optimization.stage, 3."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield before + name, value


def _torchrun(typed: Typed) -> tuple[int, list[str]]:
    """Ranks in all, and the flags of the script that is launched."""
    words = [word for word in shlex.split(typed.torchrun, comments=True) if word != "\\"]
    start = next((i for i, word in enumerate(words) if word.rpartition("/")[2] in LAUNCHERS), -1)
    words = words[start + 1 :]
    sizes, known = {"nnodes": 1, "nproc-per-node": 1}, table("launches")["torchrun"]["flags"]
    while words and words[0].startswith("-"):
        name, _, value = words.pop(0).lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not value and name not in TORCHRUN_SWITCHES and words:
            value = words.pop(0)
        if name in sizes:
            sizes[name] = _number(name, [value])
        else:
            (typed.ignored if name in (*known, "m") else typed.unknown).append(f"--{name}")
    script = words[1:]
    return sizes["nnodes"] * sizes["nproc-per-node"], script


def _spread(typed: Typed, world: int) -> None:
    """What data parallelism is left, of all ranks; or the devices for which a layout is looked."""
    flag = "--nnodes x --nproc-per-node"
    if typed.knows("batch"):
        return typed.take("devices", world, flag)
    each = 1
    for name in ("tensor", "pipeline", "context_parallel"):
        each *= _degree(typed, name)
    _divided(typed, "data", flag[2:], world, each)
