"""Types with experts: transformers' own count, with and without the defaults."""

import configs
import pytest
from configs import MIXTURES as CASES

from mathlib.from_config import mixtures

RELEASED: dict[str, dict] = {
    "olmoe": {"intermediate_size": 1024},
    "qwen2_moe": {},
    "gpt_oss": {"num_hidden_layers": 24, "num_local_experts": 32},
    "minimax_m2": {},
}
PUBLISHED = {"olmoe": 6_919_161_856, "gpt_oss": 20_914_757_184}


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_the_count_is_the_built_models(kind, changes):
    configs.is_the_built_models(kind, changes)


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_what_the_file_leaves_out_is_as_in_transformers(kind, changes):
    configs.is_the_same_without_defaults(kind, changes)


def test_every_type_is_tried():
    """Every switch of every type at least once each way."""
    assert {kind for kind, _ in CASES} == configs.readers_of(mixtures)


@pytest.mark.parametrize("kind", RELEASED)
def test_released_models_to_the_last_parameter(kind):
    configs.is_the_released_one(kind, RELEASED[kind], PUBLISHED.get(kind))
