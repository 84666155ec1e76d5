"""Flags of Megatron-LM: which option each one stands for, and what holds where none is said.

Defaults are those of megatron/training/arguments.py and of the dataclasses that it makes flags of.
"""

import re
from collections.abc import Callable
from typing import Any

from mathlib.checks import InputError, ceil_div
from mathlib.cli.flags import Flags, number, unknown
from mathlib.cli.typed import Typed
from mathlib.records import asdict
from mathlib.specs import Experts, Latent, Model, Window, table

NUMBERS = {
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
    "virtual-pipeline-model-parallel-size": "chunks",
    "micro-batch-size": "micro_batch",
}
SWITCHES: dict[str, tuple[str, Any]] = {
    "sequence-parallel": ("sequence_parallel", True),
    "swiglu": ("gated", True),
    "quick-geglu": ("gated", True),
    "gated-linear-unit": ("gated", True),
    "untie-embeddings-and-output-weights": ("tied", False),
    "qk-layernorm": ("query_key_norm", "head"),
    "recompute-activations": ("recompute", "selective"),
    "checkpoint-activations": ("recompute", "full"),
    "optimizer-cpu-offload": ("offload", "states"),
    "use-flash-attn": ("attention", "flash"),
    "use-rotary-position-embeddings": ("positions", "rotary"),
    "no-position-embedding": ("positions", "none"),
}
WORDS: dict[str, tuple[str, dict[str, Any]]] = {
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
}
EXPERTS = {"num-experts": "routed", "moe-router-topk": "active", "moe-ffn-hidden-size": "width"}
LATENT = {
    "kv-lora-rank": ("kv_rank", 32),
    "qk-pos-emb-head-dim": ("rope_dim", 64),
    "qk-head-dim": ("nope_dim", 128),
    "v-head-dim": ("value_dim", 128),
    "q-lora-rank": ("query_rank", 0),
}
NEEDS = {  # flags that have no part without another one
    **dict.fromkeys(LATENT, "multi-latent-attention"),
    "data-parallel-sharding-strategy": "use-megatron-fsdp",
    "window-attn-skip-freq": "window-size",
    "moe-shared-expert-gate": "moe-shared-expert-intermediate-size",
    "num-query-groups": "group-query-attention",
}
STRATEGIES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
ALSO = {  # flags that only change what another one means
    *("attention-dropout", "hidden-dropout", "global-batch-size", "num-query-groups"),
    *("add-qkv-bias", "disable-bias-linear", "moe-shared-expert-intermediate-size"),
    *(
        "moe-layer-freq",
        "moe-shared-expert-gate",
        "moe-router-enable-expert-bias",
        "use-distributed-optimizer",
        "use-megatron-fsdp",
    ),
    *("data-parallel-sharding-strategy", "num-distributed-optimizer-instances", "bf16", "fp16"),
    *("accumulate-allreduce-grads-in-fp32", "grad-reduce-in-bf16", "window-attn-skip-freq"),
    *("overlap-grad-reduce", "overlap-param-gather", "tp-comm-overlap", "use-torch-fsdp2"),
    *("pipeline-model-parallel-layout", "account-for-loss-in-pipeline-split", "fp8-format"),
    *("account-for-embedding-in-pipeline-split", *EXPERTS, *LATENT, "multi-latent-attention"),
}


def known(flags: Flags) -> bool:
    """Whether any of them is Megatron-LM's alone."""
    own = {*NUMBERS, *SWITCHES, *WORDS, *ALSO, *SPECIAL} - {"bf16", "fp16"}
    return not own.isdisjoint(flags)


Named = Callable[[], Model | None]  # the model that is named, read when it is asked for


def read(typed: Typed, flags: Flags, model: Named) -> None:
    """Put what the flags say in place of what was not typed, and the program's own defaults."""
    row = table("launches")["megatron"]
    every, weighs = set(row["flags"]), row["weighs"]
    for name, values in flags.items():
        flag = f"--{name}"
        if name not in every:
            unknown(typed, "megatron", name, flag)
        elif NEEDS.get(name, name) not in flags:
            typed.ignored.append(f"{flag} (without --{NEEDS[name]})")
        elif name in NUMBERS:
            typed.take(NUMBERS[name], number(flag, values), flag)
        elif name in SWITCHES:
            typed.take(*SWITCHES[name], flag)
        elif name in WORDS:
            typed.take(*_word(name, values), flag)
        elif name in weighs and values != [weighs[name]]:
            typed.uncounted.append(" ".join([flag, *values]))
        elif name not in SPECIAL and name not in ALSO:
            typed.ignored.append(flag)
    for name, reads in SPECIAL.items():
        if name in flags:
            reads(typed, flags, model)
    for reads in (_experts, _rows, _biases, _recipe, _zero, _dropout, _stages):
        reads(typed, flags, model)
    typed.assume("attention", "flash", "--attention-backend auto")


def _word(name: str, values: list[str]) -> tuple[str, Any]:
    option, words = WORDS[name]
    word = " ".join(values)
    if word not in words:
        raise InputError(f"--{name} {word}: expected one of {', '.join(words)}")
    return option, words[word]


def _value(typed: Typed, name: str, model: Named, field: str = "") -> int:
    """A size that is typed or read, or else that of the model that is named; 0: neither."""
    return typed.value(name) or getattr(model(), field or name, 0) or 0


def _groups(typed: Typed, flags: Flags, model: Named) -> None:
    """Query groups, of which --group-query-attention alone makes one."""
    if "num-query-groups" in flags:
        groups = number("--num-query-groups", flags["num-query-groups"])
        typed.take("kv_heads", groups, "--num-query-groups")
    elif not model():
        typed.assume("kv_heads", 1, "--num-query-groups 1")


def _experts(typed: Typed, flags: Flags, model: Named) -> None:
    """A mixture: what the named model has, or else two experts a token and the width of the MLP,
    changed by what is said.
    """
    said = {field: number(f"--{n}", flags[n]) for n, field in EXPERTS.items() if n in flags}
    more = {"moe-layer-freq", "moe-shared-expert-intermediate-size"} & flags.keys()
    there = getattr(model(), "experts", None) if said or more else None
    if not (there or "routed" in said):
        return
    width = said.get("width") or getattr(there, "width", 0) or _value(typed, "ffn_width", model)
    width = width or 4 * _value(typed, "width", model)
    if not width:
        raise InputError("--num-experts: needs --moe-ffn-hidden-size or --ffn-hidden-size")
    fields = {"active": 2} | (asdict(there) if there else {}) | said | _dense(flags)
    if "moe-router-enable-expert-bias" in flags:
        fields["router_bias"] = True
    name = "moe-shared-expert-intermediate-size"
    if name in flags:
        fields["shared"] = ceil_div(number(f"--{name}", flags[name]), width)
        fields["shared_gate"] = "moe-shared-expert-gate" in flags
    typed.take(
        "experts",
        Experts(**fields | {"width": width}),
        f"--{min((set(EXPERTS) & {*flags}) or more)}",
    )


def _dense(flags: Flags) -> dict[str, int]:
    """Which layers have experts: every n-th, or a list such as ([0]*3+[1]*58)."""
    text = "".join(flags.get("moe-layer-freq", [])).strip("()")
    if not text:
        return {}
    if text.isdigit():
        return {"every": int(text)}
    found = re.fullmatch(r"\[0\]\*(\d+)\+\[1\]\*(\d+)", text)
    if not found:
        raise InputError(f"--moe-layer-freq {text}: expected a number, or ([0]*3+[1]*58)")
    return {"dense_layers": int(found[1])}


def _latent(typed: Typed, flags: Flags, model: Named) -> None:
    """Latent attention: its ranks and the widths of a head."""
    fields = {
        field: number(f"--{name}", flags[name]) if name in flags else usual
        for name, (field, usual) in LATENT.items()
    }
    typed.take("latent", Latent(**fields), "--multi-latent-attention")


def _window(typed: Typed, flags: Flags, model: Named) -> None:
    """A window of so many tokens before a token, and every n-th layer without it."""
    text = "".join(flags["window-size"]).strip("()")
    found = re.fullmatch(r"(\d+),(-?\d+)", text)
    every = "".join(flags.get("window-attn-skip-freq", ["0"]))
    if not found or not every.isdigit():
        raise InputError(f"--window-size {text}: expected two numbers, such as 4095,0")
    window = Window(width=int(found[1]) + 1, full_every=int(every))
    typed.take("window", window, "--window-size")


def _chunks(typed: Typed, flags: Flags, model: Named) -> None:
    """Chunks of a stage from the layers of each."""
    name = "num-layers-per-virtual-pipeline-stage"
    layers = _value(typed, "layers", model)
    if not layers:
        raise InputError(f"--{name}: needs --num-layers, or say --chunks instead")
    each = (typed.value("pipeline") or 1) * number(f"--{name}", flags[name])
    divided(typed, "chunks", f"--{name}", layers, each)


def _rows(typed: Typed, flags: Flags, model: Named) -> None:
    """Rows where nothing is said of them: a multiple of 128 for each tensor rank."""
    if "vocab-size" in flags and "no-pad-vocab-size" not in flags:
        step = 128 * (typed.value("tensor") or 1)
        rows = step * ceil_div(number("--vocab-size", flags["vocab-size"]), step)
        typed.assume("padded_vocab", rows, "--make-vocab-size-divisible-by 128")


def _padded(typed: Typed, flags: Flags, model: Named) -> None:
    """Rows of the table: the next multiple of so many for each tensor rank."""
    name = "make-vocab-size-divisible-by"
    step = number(f"--{name}", flags[name]) * (typed.value("tensor") or 1)
    if vocab := _value(typed, "vocab", model):
        typed.take("padded_vocab", step * ceil_div(vocab, step), f"--{name}")
    else:
        typed.ignored.append(f"--{name} (without --vocab-size)")


def divided(typed: Typed, option: str, flag: str, whole: int, by: int) -> None:
    """An option that two numbers make; refused where it is no whole number."""
    if whole % by:
        raise InputError(f"{flag}: {whole} is no multiple of {by}, so {option} is no number")
    typed.take(option, whole // by, flag)


def _recomputed(typed: Typed, flags: Flags, model: Named) -> None:
    """Full recomputation layer by layer, or else it is not modelled."""
    method, layers = (flags.get(f"recompute-{one}", []) for one in ("method", "num-layers"))
    if typed.value("recompute") == "full" and (method == ["block"] or layers not in ([], ["1"])):
        typed.uncounted.append(f"--recompute-method {' '.join([*method, *layers])}")


def _fp8(typed: Typed, flags: Flags, model: Named) -> None:
    """Matmuls of 8 bits, for a step's time; what they keep is not modelled."""
    if typed.knows("precision"):
        typed.take("precision", "fp8", "--fp8-format")
    else:
        typed.uncounted.append("--fp8-format")


def _biases(typed: Typed, flags: Flags, model: Named) -> None:
    """Biases everywhere, nowhere, or on queries, keys and values alone."""
    if "disable-bias-linear" in flags:
        for option in ("output_bias", "mlp_bias"):
            typed.take(option, False, "--disable-bias-linear")
        if "add-qkv-bias" not in flags:
            typed.take("qkv_bias", False, "--disable-bias-linear")
    if "add-qkv-bias" in flags:
        typed.take("qkv_bias", True, "--add-qkv-bias")


def _recipe(typed: Typed, flags: Flags, model: Named) -> None:
    """16-bit weights; their gradients are summed in fp32 with bf16 unless something else is said,
    with fp16 where it is said.
    """
    half = next((name for name in ("bf16", "fp16") if name in flags), "")
    wide = "accumulate-allreduce-grads-in-fp32" in flags
    if not half and not wide:
        told = "16 bits (Megatron-LM itself: fp32, without --bf16 or --fp16)"
        typed.assume("recipe", "mixed-adam-fp32-gradients", told)
        return
    wide |= half == "bf16" and "grad-reduce-in-bf16" not in flags
    recipe = "mixed-adam-fp32-gradients" if wide else "mixed-adam"
    typed.take("recipe", recipe, f"--{half or 'accumulate-allreduce-grads-in-fp32'}")


def _zero(typed: Typed, flags: Flags, model: Named) -> None:
    """The optimizer's shards; stages 2 and 3 are Megatron-FSDP's."""
    name = "data-parallel-sharding-strategy"
    said = " ".join(flags.get(name, ["no_shard"]))
    if said not in STRATEGIES:
        raise InputError(f"--{name} {said}: expected one of {', '.join(STRATEGIES)}")
    if "use-torch-fsdp2" in flags:
        typed.take("zero", 3, "--use-torch-fsdp2")
    elif "use-megatron-fsdp" in flags and STRATEGIES[said]:
        typed.take("zero", STRATEGIES[said], f"--{name}")
    elif "use-distributed-optimizer" in flags:
        typed.take("zero", 1, "--use-distributed-optimizer")


def shards(typed: Typed, flags: Flags) -> None:
    """Ranks of a shard group, once the replicas are known."""
    name = "num-distributed-optimizer-instances"
    if name in flags and typed.knows("shard"):
        ranks = (typed.value("data") or 1) * (typed.value("context_parallel") or 1)
        divided(typed, "shard", f"--{name}", ranks, number(f"--{name}", flags[name]))


def overlap(typed: Typed, flags: Flags) -> None:
    """Exchanges that go on beside computation, as the flags ask for, once the degrees are known."""
    asked = {
        "overlap-grad-reduce": (typed.value("data") or 1) * (typed.value("context_parallel") or 1),
        "overlap-param-gather": typed.value("zero") or 0,
        "tp-comm-overlap": typed.value("tensor") or 1,
    }
    for name, needed in asked.items():
        option = name.replace("-", "_")
        if name in flags:
            typed.take(option, True, f"--{name}")
        elif needed > (name != "overlap-param-gather"):
            typed.assume(option, False, f"no --{name}")


def _dropout(typed: Typed, flags: Flags, model: Named) -> None:
    """Dropout's masks are gone where both rates are 0; 0.1 is their default."""
    names = ("hidden-dropout", "attention-dropout")
    rates = {name: _rate(name, flags[name]) for name in names if name in flags}
    unsaid = [f"--{name} 0.1" for name in names if name not in flags]
    if any(rates.values()) or len(rates) == 2:
        typed.take("dropout", any(rates.values()), f"--{next(iter(rates))}")
    else:
        typed.assume("dropout", True, ", ".join(unsaid))


def _rate(name: str, values: list[str]) -> float:
    try:
        return float(*values)
    except (TypeError, ValueError):
        raise InputError(f"--{name} {' '.join(values)}: expected a number") from None


def _stages(typed: Typed, flags: Flags, model: Named) -> None:
    """Uneven stages are modelled where the ends have a layer fewer, as `layout.chunk_layers`."""
    if not typed.knows("pipeline"):
        return
    layers, p = _value(typed, "layers", model), typed.value("pipeline") or 1
    text = " ".join(flags.get("pipeline-model-parallel-layout", []))
    if text:
        sizes = [len(chunk) for chunk in _expanded(text)]
        divided(typed, "chunks", "--pipeline-model-parallel-layout", len(sizes), p)
    else:
        ends = [f"account-for-{end}-in-pipeline-split" in flags for end in ("embedding", "loss")]
        if not any(ends):
            return
        number_of = p * (typed.value("chunks") or 1)
        sizes = [ceil_div(layers + sum(ends), number_of)] * number_of
        sizes[0] -= ends[0]
        sizes[-1] -= ends[1]
    _as_ours(typed, sizes, layers, p)


def _as_ours(typed: Typed, sizes: list[int], layers: int, pipeline: int) -> None:
    from mathlib.layout import chunk_layers

    if sizes != chunk_layers(layers, pipeline, typed.value("chunks") or 1):
        typed.uncounted.append(f"stages of {', '.join(map(str, sizes))} layers")


def _expanded(text: str) -> list[str]:
    """The layers of each chunk: E(tt|)*2tL is Ett, tt and tL, without the ends."""
    for _ in range(text.count("(")):
        text = re.sub(r"\(([^()]*)\)\*(\d+)", lambda one: one[1] * int(one[2]), text)
    text = re.sub(r"([a-zA-Z])\*(\d+)", lambda one: one[1] * int(one[2]), text)
    if not re.fullmatch(r"E?[t|]+L?", text.replace(",", "")):
        raise InputError(f"--pipeline-model-parallel-layout {text}: expected E, t, L and |")
    return [chunk.strip("EL") for chunk in text.replace(",", "").split("|")]


SPECIAL: dict[str, Callable[[Typed, Flags, Named], None]] = {
    "group-query-attention": _groups,
    "multi-latent-attention": _latent,
    "window-size": _window,
    "num-layers-per-virtual-pipeline-stage": _chunks,
    "make-vocab-size-divisible-by": _padded,
    "recompute-method": _recomputed,
    "recompute-num-layers": _recomputed,
    "fp8-format": _fp8,
}
