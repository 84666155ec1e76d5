"""A limit by size, read as kindly as possible, and what GPT-NeoX and a paper say of themselves."""

from typing import Any

from mathlib import specs
from mathlib.memory import kept

NEOX = (  # neox_args.py from line 926 on: all options for activations
    "checkpoint_activations",
    "checkpoint_num_layers",
    "deepspeed_activation_checkpointing",
    "contiguous_checkpointing",
    "checkpoint_in_cpu",
    "synchronize_each_layer",
    "profile_backward",
    "partition_activations",
)
CONFIGS = {  # git grep -E 'checkpoint.activations' 01b5e22 -- '*.yml' '*.json'
    "true": """1-3B 125M 125M-json 13B 175B 19M 2-7B 20B 350M 49M 6-7B 760M 800M bf16_125M
        bnb_125M gmlp_small slurm_125M pythia/70M pythia/160M pythia/410M pythia/1B
        pythia/1-4B pythia/2-8B pythia/6-9B pythia/12B finetuning_configs/6-9B
        autotuning_configs/small_tune autotuning_configs/tune autotuning_configs/tune_6-7B
        tests/test_configs/test_train_base""",
    "false": "autotuning_configs/tune_1-3B",
    "nothing": """llama/7B llama/13B llama/30B llama/65B cpu_mock_config eleutherai_cluster
        local_setup slurm_local.json slurm_local sparse text_generation""",
}
PUBLISHED = {"selective": 20.9 / 19.6 - 1, "full": 27.2 / 19.6 - 1}  # Korthikanti et al., Table 4


def sizes_named() -> list[str]:
    """Options whose name speaks of a size."""
    return [name for name in NEOX if any(w in name for w in ("size", "bytes", "limit", "numel"))]


def configurations() -> dict[str, int]:
    """How many configurations say true, false or nothing of checkpoint_activations."""
    return {said: len(names.split()) for said, names in CONFIGS.items()}


def by_size(name: str, free: bool = True) -> list[tuple[float, float, float]]:
    """For each limit: bytes of s b h kept, and FLOP again over those of a step, by the limit and
    by the best choice of the same bytes. `free`: small tensors that no matmul made are kept, too.
    """
    model = specs.find_model(name)
    tensors, L = kept.tensors(model), model.layers
    step, found = 3 * kept.forward_flop(model), []
    for limit in [0.5, *sorted({one.bytes for one in tensors})[:-1]]:
        keep = [one.name for one in tensors if one.bytes <= limit and (free or one.flop)]
        one = kept.layer(model, keep=keep)
        best = kept.best(model, budget=L * one.bytes)
        unit = model.context * model.width
        found.append((one.bytes / unit, one.flop / step, best.flop / L / step))
    return found


def as_selective(tokens: int, **given: Any) -> bool:
    """Whether any limit keeps what selective recomputation keeps in GPT-3's layer."""
    how = {"tokens": tokens, **given}
    wanted = kept.names("gpt3-175b", policy="selective", **how)
    sizes = {one.bytes for one in kept.tensors("gpt3-175b", **how)}
    return any(kept.names("gpt3-175b", policy="size", limit=x, **how) == wanted for x in sizes)


def longest_unlike(dropout: bool) -> int:
    """The longest sequence for which no limit does, of those from 4 d to a little beyond 8 d."""
    d = specs.find_model("gpt3-175b").head_dim
    return max(s for s in range(4 * d, 8 * d + 4) if not as_selective(s, dropout=dropout))


def in_order(name: str, limit: float, free: bool) -> bool:
    """Whether all tensors above a limit are cheaper, byte for byte, than all below it."""
    found = kept.tensors(name)
    above = [one.flop / one.bytes for one in found if one.bytes > limit]
    below = [one.flop / one.bytes for one in found if one.bytes <= limit]
    below = [price for price in below if price or free]
    return bool(below) and max(above) <= min(below)
