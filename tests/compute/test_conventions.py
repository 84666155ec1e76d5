"""One run in every source's terms: the same matmuls, counted differently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.compute import conventions, flops, papers, params
from mathlib.specs import find_model

SHAPE = {"layers": 96, "width": 12288, "vocab": 51200}


def flop(model, convention, **more):
    return conventions.training_flop(model, convention=convention, **more).total


def gpt(**more):
    return find_model("gpt3-175b").but(**more)


def test_a_row_says_what_the_formula_knows():
    rows = [conventions.find_convention(name) for name in conventions.names()]
    assert {row.weights for row in rows} == {"all", "copies", "no table", "matmuls"}
    assert {row.attention for row in rows} == set(conventions.SHARES)
    assert {row.again for row in rows} == {"none", "layers", "thrice", "third"}
    assert {row.prints for row in rows} == {"model", "hardware"}
    assert len({row.title for row in rows}) == len(rows)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_megatrons_two_papers_are_their_equations(recompute):
    model, whole = gpt(vocab=51200, padded_vocab=51200), {"sequences": 1, "tokens": 2048, **SHAPE}
    if recompute == "full":
        assert 2048 * flop(model, "narayanan", recompute="full") == papers.narayanan(**whole)
    wanted = papers.korthikanti(**whole, recompute=recompute)
    assert 2048 * flop(model, "korthikanti", recompute=recompute) == wanted


def test_palms_is_appendix_b():
    model = find_model("palm-540b")
    shape = {"layers": 118, "heads": 48, "head_dim": 256, "tokens": 2048}
    wanted = papers.palm_per_token(parameters=params.total(model), **shape)
    assert flop(model, "palm", tokens=2048) == wanted
    assert flop(model, "6pd") == 6 * params.total(model)
    assert flop(model, "6pd", recompute="full") == 8 * params.total(model)


@given(
    model=st.sampled_from(
        ["gpt-neox-20b", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "gemma2-9b"]
    ),
    tokens=st.integers(1, 10**5),
)
def test_who_counts_more_is_never_below(model, tokens):
    by = {name: flop(model, name, tokens=tokens) for name in conventions.names()}
    assert by["megatron-bridge"] <= by["nemo"] <= by["nanotron"] <= by["palm"]
    assert by["nemo"] - by["megatron-bridge"] == pytest.approx(by["palm"] / 2 - by["6pd"] / 2)
    assert by["maxtext"] <= by["maxtext-2024"] == by["nanotron"]
    assert by["torchtitan"] <= by["palm"] == by["llm-foundry"]
    assert by["nanotron"] == pytest.approx(
        flops.per_token(find_model(model).but(window=None), tokens=tokens)
    )


def test_a_router_is_what_nemo_leaves_out():
    more = flop("mixtral-8x7b", "nanotron") - flop("mixtral-8x7b", "nemo")
    assert more == 6 * 32 * 4096 * 8
    assert flop("llama3-8b", "nanotron") == flop("llama3-8b", "nemo")


def test_a_tied_table_is_there_twice_where_stages_hold_two_of_it():
    tied, own = "gpt2", "llama3-8b"
    assert flop(tied, "playbook", pipeline=2) - flop(tied, "playbook") == 6 * 50257 * 768
    assert flop(own, "playbook", pipeline=2) == flop(own, "playbook")
    assert flop(tied, "torchtitan") - flop(tied, "palm") == 0
    assert flop(own, "palm") - flop(own, "torchtitan") == 6 * 128256 * 4096


def test_a_run_is_counted_in_every_convention():
    run = {"devices": 8, "peak": 989e12, "recompute": "full"}
    found = conventions.counted("llama3-8b", tokens_per_second=8 * 9000, **run)
    by = {one.convention.name: one for one in found}
    assert list(by) == conventions.names()
    for one in found:
        assert one.rate == pytest.approx(9000 * one.model_flop)
        assert one.mfu == pytest.approx(one.rate / 989e12)
        assert (one.hfu is None) == (one.hardware_flop is None) == (one.convention.again == "none")
    third = by["llm-foundry"]
    assert third.hfu == pytest.approx(third.mfu * 4 / 3) and third.printed == third.rate
    assert by["narayanan"].printed == pytest.approx(by["narayanan"].hfu * 989e12)


@pytest.mark.parametrize("name", conventions.names())
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_what_a_source_prints_leads_back_to_the_tokens(name, recompute):
    run = {"devices": 8, "recompute": recompute}
    found = conventions.counted("gpt2-xl", tokens_per_second=1e4, peak=312e12, **run)
    (one,) = [one for one in found if one.convention.name == name]
    back = conventions.tokens_per_second("gpt2-xl", rate=one.printed, convention=name, **run)
    assert back == pytest.approx(1e4)


def test_more_than_the_peak_is_refused():
    with pytest.raises(InputError, match="expected at most 1"):
        conventions.counted("llama3-8b", tokens_per_second=1e6, devices=8, peak=989e12)
    with pytest.raises(InputError, match="convention = 'nemmo'"):
        conventions.training_flop("gpt2", convention="nemmo")
