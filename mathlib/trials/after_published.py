"""What others print of memory after pretraining, beside the formulas."""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from mathlib import specs
from mathlib.compute import flops, params
from mathlib.explore.after import RESERVE
from mathlib.memory import activations, adapters, decode_time, fit, inference, preference, states
from mathlib.memory.saved_tensors import FP32
from mathlib.parts import Parts

ROWS = specs.table("rates")["after"]
CARD = specs.find_device("a100-80gb")
EIGHT = "llama3-8b"
P8 = params.total(EIGHT)


# One GPU: tables


def sixty_five() -> dict[str, tuple[float, float]]:
    """GB of LLaMA 65B: full with 12 bytes a parameter, QLoRA of rank 64 on 512 tokens; as printed,
    which is a bound.
    """
    full = (2 + 2 + 8) * params.total("llama-65b")  # weights, gradients, two moments
    how = {"rank": 64, "tokens": 512, "recompute": "full", "quantised": True}
    packed = adapters.training("llama-65b", **how).total  # type: ignore[arg-type]
    most, least = ROWS["qlora"]
    return {"full, at least": (full / 1e9, most), "QLoRA, at most": (packed / 1e9, least)}


# Several GPUs: what was kept for nothing


class Kept(NamedTuple):
    """GiB that a mended script saved, as printed; what they are by the formula."""

    printed: float
    formula: float


def forgotten(sequences: int = 4, tokens: int = 2048) -> Kept:
    """Logits in 32 bits and a cache of all keys and values that nobody needed in training."""
    model = specs.find_model("llama2-7b")
    cache = inference.kv_cache(model, tokens=tokens, sequences=sequences).total
    logits = FP32 * sequences * tokens * model.padded_vocab
    _, limited, mended = ROWS["fsdp"]
    return Kept(limited - mended, (cache + logits) / 2**30)


def early() -> Kept:
    """Gathers that ran ahead, in gathered layers of 16 bits."""
    model = specs.find_model("llama2-7b")
    layer = 2 * sum(one.parameters for one in params.matrices(model)[:-1]) / model.layers
    unlimited, limited, _ = ROWS["fsdp"]
    return Kept(unlimited - limited, layer / 2**30)


def crossing() -> float:
    """From how many GPUs on 4-bit matrices that stay whole take more than 16-bit ones in shards:
    2/N bytes for a half and its scales.
    """
    held = states.adapters(1, 1, base="nf4", block=64, second_block=256)
    return 2 / (held.amount("frozen weights") + held.amount("scales"))


# A team's question: what fits on eight GPUs


def ways(tokens: int, devices: int = 8) -> dict[str, float]:
    """Bytes of one of the GPUs by method: Llama 3 8B, a sequence each, layers recomputed."""
    how: dict[str, Any] = {"tokens": tokens, "recompute": "full"}
    own = how | {"rank": 16}
    found = {
        "full, FSDP": fit.sharded(EIGHT, devices=devices, **how).total,
        "LoRA": adapters.training(EIGHT, **own).total,  # type: ignore[arg-type]
        "LoRA, FSDP": adapters.sharded(EIGHT, devices=devices, **own).total,
        "QLoRA": adapters.training(EIGHT, quantised=True, **own).total,  # type: ignore[arg-type]
    }
    for method in ("dpo", "grpo", "ppo"):
        more = {} if method == "dpo" else {"sequences": 64}
        every = preference.phases(EIGHT, method=method, devices=devices, tokens=tokens, **more)  # type: ignore[arg-type]
        found[method.upper()] = max(phase.total for phase in every.values())
    return found


def answer(needed: float) -> str:
    """Whether a GPU of 80 GB has it, less the reserve."""
    return "fits" if fit.fits(needed, CARD, reserve=RESERVE) else "too much"


def growth(tokens: Sequence[int], devices: int = 8) -> dict[str, list[tuple[float, float]]]:
    """GB of a GPU over the length of its one sequence, nothing recomputed: full fine-tuning in
    shards on all GPUs, adapters with the whole model on each, LoRA in shards as well.
    """
    names = (f"full, in {devices} shards", "LoRA", "QLoRA", f"LoRA, in {devices} shards")
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for s in tokens:
        own = {"rank": 16, "tokens": s}
        needed = [
            fit.sharded(EIGHT, devices=devices, tokens=s),
            *(adapters.training(EIGHT, quantised=q, **own) for q in (False, True)),  # type: ignore[arg-type]
            adapters.sharded(EIGHT, devices=devices, **own),  # type: ignore[arg-type]
        ]
        for line, one in zip(lines.values(), needed, strict=True):
            line.append((s, one.total / 1e9))
    return lines


def grouped(parts: Parts) -> dict[str, float]:
    """Weights, adapters with their states, activations, and what comes with the logits."""
    names = {"weights": [], "adapters": ["adapters"], "activations": ["activations"]}
    sizes = {name: parts.amount(name) for name in parts}
    logits = parts["activations"].amount("probabilities")  # type: ignore[union-attr]
    found = {role: sum(sizes.pop(one, 0) for one in of) for role, of in names.items()}
    spike = sizes.pop("gradients of logits", 0)
    found |= {"activations": found["activations"] - logits, "logits": logits + spike}
    found["activations"] += sizes.pop("recomputed layer", 0)
    return found | {"weights": sum(sizes.values())}


def lora_parts(*tokens: int) -> dict[str, dict[str, float]]:
    """Bars of LoRA and QLoRA on one GPU, layers recomputed, at these lengths."""
    return {
        f"{name}, {s:,} tokens": grouped(
            adapters.training(EIGHT, rank=16, tokens=s, recompute="full", quantised=q)
        )
        for s in tokens
        for name, q in (("LoRA", False), ("QLoRA", True))
    }


# Roles


TOKENS, REPLY, REPLIES = 4096, 2048, 64  # of prompt and reply; of a reply; of a GPU at once
TO_ONE = 8  # replies to one prompt


def phases(
    method: str, place: str = "together", devices: int = 8, rounds: int = 1
) -> dict[str, Parts]:
    """A GPU's phases, with 64 replies where it writes, all at once or in rounds."""
    how: dict[str, Any] = {"method": method, "devices": devices, "tokens": TOKENS}
    if method in preference.WRITES:
        how["sequences"] = REPLIES // rounds
    if place == "apart":
        return preference.split(EIGHT, writers=2, **how)
    return preference.phases(EIGHT, offload=place == "offloaded", **how)


def phase_bars(method: str, place: str = "together") -> dict[str, dict[str, float]]:
    """Bars by phase: who rests, and what the phase has of its own; the smallest parts together."""
    rows = {}
    for name, parts in phases(method, place).items():
        sizes = {one: parts.amount(one) for one in parts}
        small = [one for one, size in sizes.items() if size < 0.03 * parts.total]
        rows[name] = {one: size for one, size in sizes.items() if one not in small}
        if small:
            rows[name]["other"] = sum(sizes[one] for one in small)
    return rows


def placements(method: str = "ppo") -> list[list[str]]:
    """Each placement's fullest GPU, all replies at once or in rounds."""
    rows = []
    for place, rounds in product(("together", "apart", "offloaded"), (1, 4)):
        found = phases(method, place, rounds=rounds)
        name, most = max(found.items(), key=lambda one: one[1].total)
        title = f"{place}, {rounds} rounds" if rounds > 1 else place
        rows.append([title, name, f"{most.total / 1e9:.1f} GB", answer(most.total)])
    return rows


def seconds(achieved: float = 0.4) -> dict[str, float]:
    """Of a GRPO step on one of eight A100s with 64 replies, at a share of its peak and of its
    memory bandwidth: prompts read once each, replies written, scored by one model and trained on;
    weights gathered over NVLink.
    """
    speed = achieved * CARD.flops_per_second("bf16")
    read = [
        decode_time.step(EIGHT, CARD, sequences=REPLIES, past=TOKENS - REPLY + i).total / achieved
        for i in (0, REPLY // 2, REPLY - 1)
    ]
    forward = flops.forward(EIGHT, sequences=REPLIES, tokens=TOKENS).total / speed
    asked: dict[str, Any] = {"sequences": REPLIES // TO_ONE, "tokens": TOKENS - REPLY}
    weights = 2 * params.total(EIGHT)
    return {
        "reading the prompts": flops.forward(EIGHT, **asked).total / speed,
        "writing": REPLY * sum(read) / len(read),
        "scoring": forward,
        "training, recomputed": 4 * forward,
        "gathering weights": reshard(weights, 8) / NVLINK / achieved,
    }


def offloaded() -> float:
    """Seconds in which all that rests in PPO crosses a GPU's PCIe once."""
    resting = phases("ppo")["writing"]
    rests = sum(resting.amount(name) for name in resting if name.endswith("at rest"))
    return rests / specs.find_cluster("dgx-a100").host_link


NVLINK = 300e9  # bytes/s of an A100's links in one direction


def reshard(weights: float, ranks: int) -> float:
    """Bytes that a rank sends so that each has all weights: K (N-1)/N."""
    return weights * (ranks - 1) / ranks


def kept_by_layer() -> dict[str, float]:
    """Bytes that a layer keeps of a token."""
    of: dict[str, Any] = {"rank": 16, "tokens": 4096}
    found = {
        "full fine-tuning": activations.layer(EIGHT, tokens=4096),
        "LoRA, query and value": adapters.layer(EIGHT, **of),
        "LoRA, all seven": adapters.layer(EIGHT, targets=adapters.TARGETS, **of),
    }
    return {name: one.total / 4096 for name, one in found.items()}


def cache_by_heads(degrees: Sequence[int] = (1, 2, 4, 8, 16)) -> list[list[str]]:
    """A writer's share of weights and of the cache of 64 replies, by GPUs that share the heads."""
    rows = []
    for t in degrees:
        cache = inference.kv_cache(EIGHT, tokens=TOKENS, sequences=REPLIES, tensor=t).total
        rows.append([str(t), f"{2 * P8 / t / 1e9:.2f} GB", f"{cache / 1e9:.2f} GB"])
    return rows
