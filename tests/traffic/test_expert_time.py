"""The ratio is bytes over FLOP of the two formulas, for any tokens, width and visits."""

import pytest

from mathlib import specs
from mathlib.compute import flops
from mathlib.traffic import expert_time, volumes


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_tokens_width_and_visits_cancel(name):
    model = specs.find_model(name)
    sent = volumes.expert_parallel(model, expert=4, tokens=512, layers=1).total
    done = 3 * flops.forward(model, tokens=512).amount("experts") / model.expert_layers
    found = expert_time.ratio(
        ffn_width=model.experts.width, expert=4, achieved=4e14, bandwidth=45e9
    )
    assert found == pytest.approx(sent / 45e9 / (done / 4e14))
    assert expert_time.ratio(ffn_width=64, expert=1, achieved=1e12, bandwidth=1e9) == 0
