"""A limit by size, read as kindly as possible, and what GPT-NeoX and a paper say of themselves."""

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
# git grep -E 'checkpoint.activations' 01b5e22 -- '*.yml' '*.json': how many files say what
CONFIGS = {"true": 30, "false": 1, "nothing": 11}
PUBLISHED = {"selective": 20.9 / 19.6 - 1, "full": 27.2 / 19.6 - 1}  # Korthikanti et al., Table 4


def sizes_named() -> list[str]:
    """Options whose name speaks of a size."""
    return [name for name in NEOX if any(w in name for w in ("size", "bytes", "limit", "numel"))]


def by_size(name: str) -> list[tuple[float, float, float]]:
    """For each limit: bytes of s b h kept, and FLOP again over those of a step, by the limit and
    by the best choice of the same bytes.
    """
    model = specs.find_model(name)
    tensors, L = kept.tensors(model), model.layers
    step, found = 3 * kept.forward_flop(model), []
    for limit in [0.5, *sorted({one.bytes for one in tensors})[:-1]]:
        keep = [one.name for one in tensors if one.bytes <= limit]
        one = kept.layer(model, keep=keep)
        best = kept.best(model, budget=L * one.bytes)
        unit = model.context * model.width
        found.append((one.bytes / unit, one.flop / step, best.flop / L / step))
    return found


def in_order(name: str, limit: float, free: bool) -> bool:
    """Whether all tensors above a limit are cheaper, byte for byte, than all below it."""
    found = kept.tensors(name)
    above = [one.flop / one.bytes for one in found if one.bytes > limit]
    below = [one.flop / one.bytes for one in found if one.bytes <= limit]
    below = [price for price in below if price or free]
    return bool(below) and max(above) <= min(below)
