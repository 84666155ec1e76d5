"""Bytes by axis: formula, program and, where two ranks differ in one axis alone, system."""

import pytest
import together_cases as cases
import torch
from patience import PATIENCE
from together_cases import CONTEXT, DATA, EXPERT, PIPELINE, SEQUENCE, TENSOR

from mathlib import launch
from mathlib.meters import wire
from mathlib.parallel.experts.expert_layer import ExpertLayer
from mathlib.parallel.together.traffic_by_axis import predicted

B, TOKENS = 4, 8
WIRED = {
    "three": ("gpt", PIPELINE | DATA | TENSOR | {"micro_batches": 2}),
    "sharded": ("modern", PIPELINE | DATA | TENSOR | SEQUENCE | {"micro_batches": 2, "zero": 2}),
    "whole only while used": ("gpt", DATA | CONTEXT | TENSOR | {"micro_batches": 2, "zero": 3}),
    "experts": ("shared", PIPELINE | {"data": 4, "micro_batches": 2, "zero": 1} | EXPERT),
    "parts of experts": ("experts", DATA | CONTEXT | TENSOR | SEQUENCE | EXPERT),
}


def even(module, given, logits):
    """Tokens choose their experts in turns: every expert has as many visits."""
    flat = logits.reshape(-1, logits.shape[-1])
    turn = torch.arange(len(flat))[:, None] * 2 + torch.arange(2)
    likes = torch.zeros_like(flat).scatter(1, turn % flat.shape[-1], 5.0)
    return (flat * 0 + likes).view_as(logits)


def sent(name):
    """Predicted and counted by axis; the program's sum and the system's; the system's by rank."""
    way = cases.make((*WIRED[name], "SGD", {}))
    for chunk in way.stage.inside.values():
        for block in chunk.blocks.children():
            if isinstance(block.mlp, ExpertLayer):
                block.mlp.router.register_forward_hook(even)
    tokens = torch.arange(B * TOKENS).view(B, TOKENS) % cases.WORDS

    def step():
        way.run(tokens, tokens)
        way.update()

    step()  # opens connections
    with wire.sent() as found:
        step()
    to = {}
    if name == "three":
        with wire.sent_to() as to:
            step()
    return predicted(way, B, TOKENS), way.sent(found), (found.program, found.system), dict(to)


AXIS = {1: "tensor", 2: "data", 4: "pipeline"}  # of two ranks that differ by so many


def test_bytes_by_axis_are_those_of_the_formulas_and_of_the_system():
    found = launch.run(lambda: {name: sent(name) for name in WIRED}, 8, timeout=PATIENCE)
    for name in WIRED:
        for rank, (formula, program, (handed, _), _) in enumerate(one[name] for one in found):
            program = {axis: size for axis, size in program.items() if size}
            assert program == pytest.approx(formula, rel=1e-12), (name, rank)
            assert handed == pytest.approx(sum(program.values()))
        both = [one[name][2] for one in found]
        short = sum(handed - system for handed, system in both)  # of few numbers fewer messages
        assert short % (wire.ANNOUNCED + wire.READY) == 0 and abs(short) < 200 * 144, name
    for rank, one in enumerate(found):
        formula, *_, to = one["three"]
        by_axis = {}
        for other, size in to.items():
            axis = AXIS.get(rank ^ other, "copies")
            by_axis[axis] = by_axis.get(axis, 0) + size
        for axis in ("tensor", "pipeline"):
            assert formula[axis] <= by_axis[axis] <= 1.4 * formula[axis] + 20_000, (rank, axis)
