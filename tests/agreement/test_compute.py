"""The FLOP formulas against counted runs: equal to the last digit, for every shape, kernel and
recomputation.
"""

import pytest

from mathlib.compute import flops, params
from mathlib.meters import flop
from mathlib.model import dry_run, gpt

SHAPES = {
    "plain": {},
    "one layer": {"layers": 1},
    "deep": {"layers": 7},
    "wide": {"width": 192, "heads": 6},
    "one head": {"heads": 1},
    "long": {"context": 96},
    "odd sizes": {"layers": 3, "width": 60, "heads": 5, "vocab": 37, "context": 23},
    "narrow MLP": {"ffn_width": 100},
    "untied": {"tied": False},
    "padded": {"vocab": 50, "padded_vocab": 64},
    "no biases": {"qkv_bias": False, "output_bias": False, "mlp_bias": False},
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def model(request):
    return gpt.small(**request.param)


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("attention, backward", [("plain", 2), ("flash", 2.5)])
def test_every_flop_of_a_step(model, attention, backward, recompute, early_stop):
    run = dry_run.dry_run if attention == "plain" else _run_flash
    counted = run(model, 3, recompute=recompute, early_stop=early_stop)
    predicted = flops.training(
        model,
        sequences=3,
        attention_backward=backward,
        recompute=recompute,
        early_stop=early_stop,
    )
    assert counted[0] == flop.by_kernel(flops.forward(model, sequences=3))
    behind = flop.by_kernel(predicted["backward"])
    for part, again in flop.by_kernel(predicted["recomputation"]).items():
        behind[part] += again
    assert counted[1] == behind


def _run_flash(model, sequences, recompute, early_stop):
    """Flash attention has no meta kernel of its own on the CPU, so it runs with numbers."""
    import torch

    tokens = torch.zeros(sequences, model.context, dtype=torch.long)
    run = gpt.GPT(model, "flash", recompute)
    return flop.count_flop(lambda: run.loss(tokens, tokens), run, early_stop)


def test_torch_stops_early_unless_told_otherwise(model):
    """By default half of a selective recomputation is run, and all of full but each MLP's last."""
    counted, whole = (
        sum(part.total() for part in dry_run.dry_run(model, 2, recompute="full", **how))
        for how in ({}, {"early_stop": False})
    )
    s, h, f, L = model.context, model.width, model.ffn_width, model.layers
    assert whole - counted == 2 * 2 * s * L * h * f
    none = sum(part.total() for part in dry_run.dry_run(model, 2))
    selective = sum(part.total() for part in dry_run.dry_run(model, 2, recompute="selective"))
    assert selective - none == 2 * 2 * L * s * s * h


def test_every_parameter(model):
    assert sum(p.numel() for p in gpt.GPT(model).parameters()) == params.count(model).total


def test_selective_recomputation_costs_4_not_12(model):
    """Korthikanti et al. charge 12 B L s^2 h; a run that does not stop early computes the two
    attention products once more, 4 B L s^2 h.
    """
    once, again = (
        sum(part.total() for part in dry_run.dry_run(model, 2, recompute=r, early_stop=False))
        for r in ("none", "selective")
    )
    L, h, s = model.layers, model.width, model.context
    assert (
        again - once
        == 4 * 2 * L * s * s * h
        == flops.recomputation(model, sequences=2, recompute="selective").total
    )
    assert flops.recomputation(
        model, sequences=2, recompute="selective", convention="korthikanti"
    ).total == 3 * (again - once)
