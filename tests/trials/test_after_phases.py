"""Peaks of GRPO's phases, together and apart: measured and by formula."""

import pytest

from mathlib.memory import inference
from mathlib.trials import after_phases as study

COUNTS = 4 * (
    study.SHAPE.layers + 1
)  # how many steps, in the optimizer's state of each flat buffer
CACHE = inference.kv_cache(
    study.SHAPE, tokens=study.TOKENS, sequences=study.GROUP, bytes_per_element=4
).total


@pytest.fixture(scope="module")
def runs():
    (together,), (apart, writer) = study.measured(), study.measured(writers=2)
    return {"together": together, "apart": apart, "writer": writer}


def test_handing_over_holds_what_the_formula_says_to_the_byte(runs):
    told = study.predicted()["apart"]["handing over"]
    assert runs["apart"]["handing over"] == told + COUNTS


def test_writing_apart_lacks_what_rests_together_and_nothing_else(runs):
    told = study.predicted()
    apart = told["together"]["writing"] - told["writer"]["writing"]
    assert runs["together"]["writing"] - runs["writer"]["writing"] == apart + COUNTS
    one = CACHE / (2 * study.SHAPE.layers)  # keys or values of a layer: old, new, copied
    assert 0 < runs["writer"]["writing"] - told["writer"]["writing"] < 5 * one


def test_training_is_its_activations_and_the_reference_is_scored_before_them(runs):
    for where in ("together", "apart"):
        told, scoring = study.predicted()[where]["training"], runs[where]["scoring"]
        assert told < runs[where]["training"] < 1.05 * told
        assert scoring < told
    assert runs["together"]["training"] == runs["apart"]["training"]
