"""Full fine-tuning with other optimizers, a vision tower before the model, texts of unequal length:
states, stages, padding.
"""

import random
from typing import Any

from mathlib import specs
from mathlib.compute import packing, params, vision
from mathlib.memory import matrix_states, states, tower_activations
from mathlib.schedule import partition
from mathlib.traffic import owners
from mathlib.trials.after_published import EIGHT, P8

TOWER = vision.CLIP_L_336
PRINTED = specs.table("rates")["after"]["muon"]  # GiB of a GPU: with AdamW, with Muon; GPUs


def optimizer_states() -> dict[str, float]:
    """Bytes of Llama 3 8B's optimizer states, the 32-bit copy of the weights left out."""
    eight_bits = states.model_states(P8, recipe="mixed-adam-8bit").amount("optimizer states")
    return {
        "Adam": 8 * P8,
        "Muon": matrix_states.muon(EIGHT).total,
        "Adam in 8 bits": eight_bits,
        "Shampoo, blocks of 8,192": matrix_states.shampoo(EIGHT).total,
    }


def muon_ways(ranks: int = 8) -> list[list[str]]:
    """Bytes that a rank sends in a step for the matrices that Muon updates, beside an all-reduce's,
    by who updates whole ones: 16 bits, and of a momentum 32.
    """
    matrices = 2 * sum(m * n * count for m, n, count in matrix_states.shapes(EIGHT))
    how = {"payload": matrices, "ranks": ranks}
    whole, rows = owners.by_way("owners", **how).total, []
    for way in ("owners", "flat, repeated", "flat, dealt"):
        sent = owners.by_way(way, **how, momentum=2).total
        rows.append([way, f"{sent / 1e9:.1f} GB", f"{sent / whole:.2f}"])
    return rows


def muon_saved() -> tuple[float, float, float]:
    """GiB that Muon saves on Qwen2.5 3B: by formula on one of the GPUs that shard the states, on
    one that has all; as printed.
    """
    model = specs.find_model("qwen2.5-3b")
    whole = (8 * params.total(model) - matrix_states.muon(model).total) / 2**30
    adam, muon, gpus = PRINTED
    return whole / gpus, whole, adam - muon


# A vision tower


def tower() -> dict[str, float]:
    """Of CLIP's tower with a projector to Llama 3 8B: parameters, FLOP of an image, bytes kept."""
    how: dict[str, Any] = {"text_width": specs.find_model(EIGHT).width}
    return {
        "parameters": vision.tower_parameters(TOWER, **how).total,
        "forward": vision.tower_flops(TOWER, **how).total,
        "activations": tower_activations.kept(TOWER, **how).total,
    }


def stages(stages: int = 4, tokens: int = 2048) -> dict[str, tuple[list[int], list[float]]]:
    """Layers and FLOP of each stage, forward, of an image and a text: equal numbers of layers, the
    tower on a stage of its own, or beside an equal share of the text's layers, and the best split.
    """
    times, patches, head = partition.work_with_tower(TOWER, EIGHT, images=1, tokens=tokens)
    how = {"times": times, "embedding": patches, "head": head}
    seen, text = TOWER.layers, len(times) - TOWER.layers
    alone = partition.by_time(times=times[seen:], head=head, stages=stages - 1)
    found = {
        "equal numbers of layers": [len(times) // stages] * stages,
        "tower on a stage of its own": [seen, *alone],
        "tower and equal text": [seen + text // stages] + [text // stages] * (stages - 1),
        "equal work": list(partition.by_time(**how, stages=stages)),  # type: ignore[arg-type]
    }
    return {name: (cut, partition.stage_times(cut, **how)) for name, cut in found.items()}  # type: ignore[arg-type]


# Texts of unequal length


def packed(texts: int = 512, room: int = 4096, sequences: int = 8) -> list[list[str]]:
    """Padding and query-key pairs of batches of drawn lengths, half of them below 400 tokens."""
    draw = random.Random(0)
    lengths = [min(room, round(draw.lognormvariate(6, 1))) for _ in range(texts)]
    rows = []
    for way in packing.WAYS:
        how: dict[str, Any] = {"way": way, "room": room, "sequences": sequences}
        places, pairs = packing.slots(lengths, **how), packing.pairs(lengths, **how)
        share = places["padding"] / sum(places.values())
        rows.append([way, f"{share:.0%}", f"{pairs / 1e6:.0f} million"])
    return rows
