"""Memory with experts dealt out and sequences shared, against one device that holds all."""

import pytest

from mathlib.checks import InputError
from mathlib.memory import activations, fit, states, zero_rank
from mathlib.specs import Experts, Layout, Model

MIXED = Model(
    "mixed",
    layers=4,
    width=64,
    heads=4,
    vocab=512,
    context=64,
    attention="flash",
    dropout=False,
    experts=Experts(routed=8, active=2, width=128, dense_layers=1),
)


@pytest.mark.parametrize(
    ("expert", "tensor", "shared"), [(2, 1, 1), (8, 1, 1), (4, 2, 2), (8, 2, 1)]
)
def test_experts_are_dealt_out_and_all_else_stays(expert: int, tensor: int, shared: int) -> None:
    own = {"expert": expert, "expert_tensor": shared}
    lay = Layout(data=8, tensor=tensor, sequence_parallel=tensor > 1)
    whole = states.stage_parameters(MIXED, lay)
    dealt = states.stage_parameters(MIXED, Layout(**vars(lay) | own))
    every = 3 * 8 * 2 * 64 * 128  # layers, experts, matrices: biases apart
    biases = 3 * 8 * (128 / shared + 64) / expert
    assert dealt["experts"] == every / expert / shared + biases
    assert {n: dealt[n] for n in dealt if n != "experts"} == {
        n: whole[n] for n in whole if n != "experts"
    }


def test_experts_are_sharded_over_those_that_hold_the_same() -> None:
    """8 ranks, experts over 4: what is not an expert has 8 copies to shard over, an expert 2."""
    needed = fit.training(MIXED, Layout(data=8, expert=4, zero=1))
    own = states.stage_parameters(MIXED, Layout(data=8, expert=4))
    rest = own.total - own.amount("experts")
    assert needed.amount("optimizer states") == pytest.approx(
        8 * (rest / 8 + own.amount("experts") / 2)
    )


def test_a_rank_keeps_what_its_piece_of_a_sequence_needs() -> None:
    """Twice the tokens over twice the ranks are the same activations, except that a rank has all
    the weights.
    """
    one = fit.training(MIXED, Layout(), tokens=32)
    two = fit.training(MIXED, Layout(context=2), tokens=64)
    assert two.total == one.total
    kept = activations.layer(MIXED, tokens=64, context=4).total
    assert kept == activations.layer(MIXED, tokens=16).total
    sharded_states = fit.training(MIXED, Layout(context=2, zero=1), tokens=64)
    assert sharded_states.amount("optimizer states") == one.amount("optimizer states") / 2


def test_what_the_formulas_do_not_cover_is_refused() -> None:
    with pytest.raises(InputError, match="context = 2: expected attention = 'flash'"):
        activations.layer(MIXED, context=2, attention="standard")
    with pytest.raises(InputError, match=r"layout\.expert = 2"):
        zero_rank.moments(MIXED, Layout(data=2, expert=2))
    with pytest.raises(InputError, match=r"layout\.expert_tensor = 1: expected as many"):
        zero_rank.moments(MIXED, Layout(tensor=2, expert_tensor=1, sequence_parallel=True))
    with pytest.raises(InputError, match="expert = 3: does not divide"):
        fit.training(MIXED, Layout(data=3, expert=3))
