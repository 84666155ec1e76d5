"""A model whose weights are rounded: what is left of its steps, and of its loss."""

import pytest

from mathlib.model import gpt
from mathlib.trials import precision_weights as weights


@pytest.fixture(autouse=True)
def _untrained(monkeypatch):
    """A new model stands for the trained one, so that nothing is trained here."""
    model = gpt.GPT(weights.SHAPE)
    found = model.state_dict(), weights.loss_of(model), 0.1
    monkeypatch.setattr(weights, "finished", lambda: found)
    for cached in (weights.inputs, weights.gone_on):
        cached.cache_clear()
        monkeypatch.setattr(weights, cached.__name__, cached.__wrapped__)


def test_steps_are_lost_where_the_weights_say_so():
    shares = [weights.stays(lr) for lr in (1e-3, 1e-4)]
    assert shares[0][0] < shares[1][0]
    assert all(said == pytest.approx(counted, abs=0.01) for said, counted in shares)


def test_only_master_weights_and_chance_remember_small_steps(monkeypatch):
    monkeypatch.setattr(weights, "MORE", 8)
    gains = {way: weights.gone_on(way, 1e-5) for way in weights.WAYS}
    master, alone, stochastic = (gains[way][0] for way in weights.WAYS)
    assert alone < master / 2 and stochastic > 0.7 * master > 0
    assert gains["bf16 alone"][1] > gains["fp32 master weights"][1]


def test_fewer_bits_and_coarser_scales_cost_more():
    bits, errors, _ = zip(*map(weights.in_format, ("mxfp8", "nvfp4", "mxfp4")), strict=True)
    assert bits == (8.25, 4.5, 4.25) and errors == tuple(sorted(errors))
    assert weights.in_format("int4", 64)[:1] == (4.5,)
    assert abs(weights.nearest(8, "row")) < 1e-3 < abs(weights.nearest(2, "tensor"))
    assert weights.feedback(2, "row") != weights.nearest(2, "row")


def test_an_outlier_harms_what_shares_its_scale():
    for factor in (1 / 256, 256):
        model = weights.rewritten(factor)
        assert weights.loss_of(model) == pytest.approx(weights.finished()[1], abs=1e-4)
    coarse, fine = (abs(weights.int8_weights(shared, 256.0)) for shared in ("tensor", "row"))
    assert coarse > 2 * fine
    harmed, kept = (abs(weights.int8_inputs("row", 2.0**12, keep)) for keep in (0, 1))
    assert harmed > 20 * kept
