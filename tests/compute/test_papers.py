"""Papers' closed forms against our count of every matmul, for any shape."""

import pytest
from architectures import GPTS
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.compute import flops, papers, params


@given(GPTS, st.integers(1, 64))
def test_narayanans_equation_3_to_the_last_flop(m, B):
    L, h, V, s = m.layers, m.width, m.vocab, m.context
    counted = papers.narayanan(sequences=B, tokens=s, layers=L, width=h, vocab=V)
    assert counted == 96 * B * s * L * h**2 + 16 * B * s**2 * L * h + 6 * B * s * h * V
    assert counted == pytest.approx(
        96 * B * s * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h)), rel=1e-12
    )
    assert counted == flops.training(m, sequences=B, recompute="full").total


@given(GPTS, st.integers(1, 64))
def test_korthikantis_equations_7_and_8_to_the_last_flop(m, B):
    L, h, V, s = m.layers, m.width, m.vocab, m.context
    shape = {"sequences": B, "tokens": s, "layers": L, "width": h, "vocab": V}
    model_flop = papers.korthikanti(**shape)
    assert model_flop == 72 * B * L * s * h**2 + 12 * B * L * s**2 * h + 6 * B * s * h * V
    assert papers.korthikanti(**shape, recompute="selective") - model_flop == 12 * B * L * s**2 * h
    assert (
        papers.korthikanti(**shape, recompute="selective", convention="counted") - model_flop
        == 4 * B * L * s**2 * h
    )


@given(GPTS)
def test_palms_formula_is_exact_for_matrices_alone(m):
    """6 N + 12 L H Q T, where N counts the head and leaves out tables, biases, norms."""
    bare = m.but(norm="none", qkv_bias=False, output_bias=False, mlp_bias=False, positions="none")
    N, T = params.total(bare), m.context
    shape = {
        "parameters": N,
        "layers": m.layers,
        "heads": m.heads,
        "head_dim": m.head_dim,
        "tokens": T,
    }
    assert papers.palm_per_token(**shape) * T == flops.training(bare).total
    assert papers.palm_per_token(**shape, attention="none") * T == flops.six_nd(
        parameters=N, tokens=T
    )
    half = papers.palm_per_token(**shape, attention="causal") * T
    assert (
        flops.training(bare, causal=True).total - half == 6 * m.layers * m.width * T
    )  # the diagonal
    assert papers.palm_per_token(**shape, multiplier=8) * 6 == pytest.approx(
        papers.palm_per_token(**shape) * 8
    )


@given(GPTS)
def test_chinchillas_count_is_ours_with_a_multiplied_embedding_and_a_softmax(m):
    ours, theirs = flops.training(m), papers.chinchilla(m)
    L, h, a, V, s = m.layers, m.width, m.heads, m.vocab, m.context
    assert theirs.total - ours.total == 3 * (2 * s * V * h + 3 * L * a * s * s)
    assert papers.chinchilla(m, embedding=False, softmax=False).total == ours.total
    assert papers.chinchilla(m, sequences=7).total == 7 * theirs.total


def test_chinchilla_counts_plain_transformers_only():
    for name in ("llama-7b", "mixtral-8x7b", "deepseek-v3", "palm-8b"):
        with pytest.raises(InputError, match="expected a plain transformer"):
            papers.chinchilla(name)
