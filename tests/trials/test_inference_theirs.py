"""transformers' classes keep what the formulas say, and write as many numbers as can be counted."""

import torch

from mathlib.compute import params
from mathlib.memory import inference as formulas
from mathlib.trials import inference
from mathlib.trials import inference_theirs as theirs


def test_caches_and_states_are_the_formula():
    pairs = theirs.caches()
    assert len(pairs) == 7 and all(formula == held for formula, held in pairs.values())
    state = formulas.recurrent_state(inference.TOY).total
    assert set(theirs.by_length("RWKV", (1, 5)).values()) == {state}
    assert theirs.held("RWKV") == 2 * state, "two sequences"


def test_a_token_in_half_the_bits_takes_half_the_bytes_and_leaves_the_model_as_it_was():
    assert theirs.a_token("Llama") == inference.predicted(inference.GROUPED, 1, 1, e=2)
    assert next(theirs.model("Llama").parameters()).dtype == torch.float32


def test_every_operation_is_counted():
    with theirs.Written() as count:
        torch.ones(2, 3) @ torch.ones(3, 4) + 1
    assert count.numbers == 6 + 12 + 8 + 8
    grows = theirs.written("GPT-2", tokens=4)
    stays = theirs.written("RWKV", tokens=4)
    assert grows[3] - grows[2] == grows[2] - grows[1] == 256 and len(set(stays[1:])) == 1


def test_llama_2_70b_has_the_parameters_of_the_formula():
    assert theirs.seventy() == params.count("llama2-70b").total
