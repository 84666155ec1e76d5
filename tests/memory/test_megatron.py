"""Megatron-LM's own estimate of the first stage as a witness for ours."""

import pytest

from mathlib.memory import activations
from mathlib.specs import Layout, find_model


def megatron(model, *, p, v, t, b, m):
    """compute_activation_memory of megatron/training/theoretical_memory_usage.py, at commit
    00caa53: sequence parallelism and selective recomputation; parts before and after its factor.
    """
    s, h, f, V = model.context, model.width, model.ffn_width, model.padded_vocab
    penalty = 1 + (p - 1) / (p * v) if v > 1 else min(1, m / p) if p > 1 else 1
    layers, mask = s * b * h * (18 + 4 * (f / h)) * model.layers, s * b * h * p
    head = s * b * h * 4 * (1 + V / h) if p == 1 else 0
    return {"layers": layers * penalty / t, "embedding": mask * penalty / t, "head": head / t}


@pytest.mark.parametrize(("p", "v", "m"), [(1, 1, 1), (4, 1, 8), (4, 1, 2), (4, 3, 12)])
def test_the_first_stage_is_as_megatron_estimates_it(p, v, m):
    model, b, t = find_model("gpt3-175b").but(padded_vocab=51200), 2, 8
    shape = {"pipeline": p, "chunks": v, "tensor": t, "micro_batch": b, "micro_batches": m}
    ours = activations.stage(model, Layout(sequence_parallel=True, recompute="selective", **shape))
    theirs = megatron(model, p=p, v=v, t=t, b=b, m=m)
    # it charges interleaved embeddings as it does the layers, 5 micro-batches; its schedule holds 8
    charged, held = (5, 8) if v > 1 else (1, 1)
    assert theirs["layers"] == pytest.approx(ours.amount("layers"))
    assert theirs["embedding"] == pytest.approx(ours.amount("embedding") * charged / held)
    assert theirs["head"] == pytest.approx(ours.amount("head") if p == 1 else 0)
