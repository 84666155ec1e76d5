"""The experiment on what to keep: it says what the formulas say, at every end of its controls."""

import pytest
from charts import struck, unreadable, widths, words

from mathlib.explore.activations import MODELS, POLICIES
from mathlib.memory import kept
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.specs import find_model

KEEPING = find("activations")


def text(**values):
    return KEEPING.run(values).replace("\u00a0", " ")


@pytest.mark.parametrize("share", [2, 40, 100])
@pytest.mark.parametrize("model", MODELS)
def test_the_best_choice_is_that_of_the_formula(model, share):
    html = text(model=model, share=share)
    how = {"tokens": 8192, "micro_batch": 1, "attention": "flash"}
    names = kept.names(model, policy="none", **how)
    everything = find_model(model).layers * kept.layer(model, keep=names, **how).bytes
    least = kept.curve(model, **how)[0].bytes
    best = kept.best(model, budget=max(least, share / 100 * everything), **how)
    assert f"{says.size(best.bytes)} kept of {says.size(everything)}".replace("\u00a0", " ") in html
    assert f"and {says.percent(kept.overhead(best, model, **how))} more FLOP" in html
    assert not unreadable(html)


@pytest.mark.parametrize("share", [2, 5, 12, 25, 60, 90, 100])
@pytest.mark.parametrize("model", MODELS)
def test_the_chart_shows_the_budget_and_the_choice(model, share):
    for sequences in (1, 16):
        for flash in (True, False):
            html = text(model=model, share=share, micro_batch=sequences, flash=flash)
            wide, narrow = widths(html)
            assert {f"budget, {share}%", "your choice"} <= set(words(wide))
            assert f"kept of {sequences} sequence{'s' * (sequences > 1)} at a time" in words(wide)
            assert not unreadable(html) and not struck(wide) and not struck(narrow)


def test_everything_leaves_nothing_to_compute_again():
    assert "and 0% more FLOP" in text(share=100)


def test_stored_scores_are_the_first_to_go():
    html = text(flash=False, share=12)
    row = html.split(">softmax<")[1].split("</tr>")[0]
    assert ">0 of 32<" in row
    assert ">softmax<" not in text(flash=True)


def test_the_policies_are_those_of_the_formula():
    assert set(POLICIES) == set(kept.POLICIES) - {"size"}
