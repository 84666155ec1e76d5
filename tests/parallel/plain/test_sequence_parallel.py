"""Tokens cut over the ranks, by the oracle of one process."""

import pytest
import tensor_cases
import torch

from mathlib import launch
from mathlib.memory import activations
from mathlib.meters import live
from mathlib.model import gpt
from mathlib.parallel.plain import sequence_parallel


def test_gradients_that_nobody_sums_are_seen():
    """Of what was gathered, and of norms and biases that saw only some of the tokens."""

    def run():
        exchange, mine = sequence_parallel.GatherForwardScatterBackward, sequence_parallel.mine
        deaf = staticmethod(lambda ctx, dx: (mine(dx, ctx.group), None))
        unsummed = [(torch.Tensor, "register_hook", lambda p, f: None)]
        return tensor_cases.broken("sequence", "gpt", [[(exchange, "backward", deaf)], unsummed])

    far = [max(found) for found in zip(*launch.run(run, 2), strict=True)]
    assert min(far) > 1e-6 and len(far) == 2, far


def shape(layers):
    return gpt.small(**tensor_cases.ODD | {"layers": layers})


def held(way, layers):
    cut, loss = tensor_cases.WAYS[way]
    model, batch = cut(gpt.GPT(shape(layers))), tensor_cases.tokens(0)
    return live.held_bytes(lambda: loss(model, *batch), model, *batch)


def kept(way):
    """Bytes that one layer more leaves for the backward pass."""
    return held(way, 2) - held(way, 1)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_layer_keeps_what_the_formula_says(ranks):
    """But for what was gathered for two matmuls, which only who gathers again does not keep."""
    b, s = tensor_cases.SEQUENCES, tensor_cases.TOKENS
    how = {"micro_batch": b, "bytes_per_element": 4, "small_tensors": True, "tensor": ranks}
    gathered = 2 * 4 * b * s * shape(2).width * (ranks - 1) / ranks
    alike, cut = launch.run(lambda: (kept("vocabulary"), kept("sequence")), ranks)[0]
    assert alike == activations.layer(shape(2), **how).total
    wanted = activations.layer(shape(2), **how, sequence_parallel=True).total
    assert cut == wanted + gathered < alike
