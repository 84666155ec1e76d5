"""Plain tensor parallelism by the oracle of one process, and by its bytes."""

import pytest
import tensor_cases
import torch

from mathlib import launch
from mathlib.parallel.plain import tensor

NAMES = {1: ["gpt"], 2: ["gpt", "one key"], 3: ["untied"], 4: ["grouped"]}


@pytest.mark.parametrize("ranks", NAMES)
def test_losses_and_weights_after_every_step_are_those_of_one_process(ranks):
    """Three ranks have one, one and two of the heads, two share a key-value head, and no number
    of them divides the 61 words; with and without words and tokens cut as well.
    """
    assert not tensor_cases.wrong(ranks, tensor_cases.cases(NAMES[ranks]))


def test_without_a_sum_or_with_the_heads_of_another_they_are_apart():
    def run():
        alone = staticmethod(lambda ctx, x, group: x.clone())
        deaf = staticmethod(lambda ctx, dx: (dx, None))
        alike = [(tensor, "own", lambda n, group: range(max(1, n // 2)))]
        forward, backward = tensor.AllReduceForward, tensor.AllReduceBackward
        faults = [[(forward, "forward", alone)], [(backward, "backward", deaf)], alike]
        unshared = [[(torch.Tensor, "register_hook", lambda p, f: None)]]
        found = tensor_cases.broken("tensor", "gpt", faults)
        return found + tensor_cases.broken("tensor", "one key", unshared)

    far = [max(found) for found in zip(*launch.run(run, 2), strict=True)]
    assert min(far) > 1e-6 and len(far) == 4, far


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bytes_are_those_of_the_formula_and_of_the_system(ranks):
    tensor_cases.check_bytes(ranks, [(way, "many heads") for way in tensor_cases.WAYS])
