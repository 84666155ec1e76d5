"""transformers' classes keep what the formulas say, and spend the FLOP of the formulas."""

import torch

from mathlib.compute import params
from mathlib.memory import decode_time
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


def test_work_is_that_of_matmuls_with_weights_and_of_attention_with_the_cache():
    h, logits = inference.TOY.width, 2 * inference.TOY.width * inference.VOCAB
    assert theirs.flop("RWKV", 4) == [2 * (2 * 13 * h * h) + logits] * 4, "4 h^2 and 9 h^2 a layer"
    formula = [decode_time.work(inference.TOY, past=c).total for c in range(4)]
    assert theirs.flop("GPT-2", 4) == formula and formula[1] - formula[0] == 4 * 2 * h


def test_llama_2_70b_has_the_parameters_of_the_formula():
    assert theirs.seventy() == params.count("llama2-70b").total
