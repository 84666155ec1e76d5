"""What a layer keeps, and what a step sends, by the formula."""

import pytest
import tensor_cases

from mathlib import launch
from mathlib.memory import activations
from mathlib.meters import live
from mathlib.model import gpt, llama
from mathlib.parallel.tensor.tensor_parallel import TensorParallel
from mathlib.specs import Layout

B, SHAPE = 4, gpt.small(**tensor_cases.ODD | {"vocab": 60})
LLAMA = tensor_cases.GATED.but(vocab=60, padded_vocab=60, kv_heads=1, ffn_width=28)


def held(kind, shape, way):
    model = TensorParallel(kind(shape), **tensor_cases.STURDY[way])
    batch = [t[:B] % 60 for t in tensor_cases.tokens(0)]
    return live.held_bytes(lambda: model.loss(*batch), model, *batch)


def all_held():
    kinds = ((gpt.GPT, SHAPE), (llama.Llama, LLAMA))
    return [[held(*kind, way) for way in tensor_cases.STURDY] for kind in kinds]


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_a_step_keeps_is_what_the_formula_says(ranks):
    """Layers, embedding, head and loss, by layout; with a key-value head that ranks share. Besides,
    a byte a token for which words other ranks have, of inputs and of targets, one for which targets
    count, and a longer number of these.
    """
    masks = 3 * B * tensor_cases.TOKENS + 4
    by_rank = launch.run(all_held, ranks)
    for shape, *found in zip((SHAPE, LLAMA), *by_rank, strict=True):
        for split, *each in zip((False, True, True), *found, strict=True):
            kept = min(each)  # a thread of another may still have let go too late
            layout = Layout(tensor=ranks, micro_batch=B, sequence_parallel=split)
            wanted = activations.stage(shape, layout, bytes_per_element=4, small_tensors=True)
            assert kept == wanted.total + masks, (shape.name, split, kept, wanted)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bytes_are_those_of_the_formula_and_of_the_system(ranks):
    cases = [(way, "many heads") for way in tensor_cases.STURDY]
    if ranks == 2:
        cases += [("sturdy", "normed"), ("sturdy sequence", "normed")]
    tensor_cases.check_bytes(ranks, cases)
