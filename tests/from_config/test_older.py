"""The types of before LLaMA: transformers' own count, with and without the defaults."""

import configs
import pytest
from configs import OLDER as CASES

from mathlib.from_config import older


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_the_count_is_the_built_models(kind, changes):
    configs.is_the_built_models(kind, changes)


@pytest.mark.parametrize(("kind", "changes"), CASES, ids=configs.numbered(CASES))
def test_what_the_file_leaves_out_is_as_in_transformers(kind, changes):
    configs.is_the_same_without_defaults(kind, changes)


def test_every_type_is_tried():
    """Every switch of every type at least once each way."""
    assert {kind for kind, _ in CASES} == configs.readers_of(older)
