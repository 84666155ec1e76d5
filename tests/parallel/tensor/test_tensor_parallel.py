"""The sturdy class by the oracle of one process."""

import pytest
import tensor_cases

NAMES = {1: ["gpt"], 2: ["gpt", "normed"], 3: ["many heads"], 4: ["one key", "normed"]}


@pytest.mark.parametrize("ranks", NAMES)
def test_losses_and_weights_after_every_step_are_those_of_one_process(ranks):
    cases = tensor_cases.cases(NAMES[ranks], tensor_cases.STURDY)
    assert not tensor_cases.wrong(ranks, cases)
