"""Drafts of a trained model: the text stays, and a pass yields what the formula says."""

from mathlib.model import gpt
from mathlib.trials import inference_drafts as drafts


def test_a_draft_that_knows_less_is_worth_less_and_changes_nothing():
    small = drafts.DRAFT.but(name="tiny", width=32, heads=2)
    large, draft = drafts.trained(small, steps=250), gpt.GPT(small)
    assert drafts.loss(large) < drafts.loss(draft)
    itself, poor = (drafts.yields(large, one, more=6) for one in (large, draft))
    assert all(one.same for one in [*itself.values(), *poor.values()])
    assert [one.tokens for one in itself.values()] == [6 / 3, 6 / 2, 6 / 2]
    assert poor[4].tokens < itself[4].tokens


def test_the_formula_takes_what_one_drafted_token_shows():
    found = {1: drafts.Yield(1.5, True), 2: drafts.Yield(9.0, True)}
    assert drafts.beside(found) == {"2 drafted": (1.75, 9.0)}
