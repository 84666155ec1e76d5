"""What the meter sees of a sharded step: rows that come and go, pieces, states."""

import torch

from mathlib import launch
from mathlib.model import gpt, oracle
from mathlib.parallel.zero import live_shards
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage3 import Zero3

SHAPE = gpt.small(layers=3, width=64, vocab=128, context=8)


def plateaus(stage: int) -> list[dict[str, int]]:
    model = gpt.GPT(SHAPE)
    make = oracle.OPTIMIZERS["SGD"]
    zero = Zero3(model, make, list(model.blocks)) if stage == 3 else Zero1(model, make)
    whole = sum(row.row.numel() for row in zero.every_row()) * 4
    tokens = torch.zeros(1, SHAPE.context, dtype=torch.long)
    line = live_shards.step_timeline(zero, [(tokens, tokens)] * 3)
    kinds = ("weights", "gradients", "optimizer")
    return [{"whole": whole}] + [
        {kind: line.at(mark, 2)[kind] for kind in kinds} for mark in ("forward", "backward", "step")
    ]


def test_stage_1_has_all_weights_and_its_part_of_the_momentum():
    (whole, forward, _, step), _ = launch.run(plateaus, 2, 1)
    assert forward["weights"] == step["weights"] == whole["whole"]
    assert step["optimizer"] == whole["whole"] / 2 and step["gradients"] == 0


def test_stage_3_has_what_stands_in_no_layer_until_backward_ends():
    (whole, forward, backward, step), _ = launch.run(plateaus, 2, 3)
    outside = 4 * (128 * 64 + 8 * 64 + 2 * 64)
    assert forward["weights"] == whole["whole"] / 2 + outside
    assert backward["weights"] == step["weights"] == whole["whole"] / 2
    assert backward["gradients"] == step["optimizer"] == whole["whole"] / 2
