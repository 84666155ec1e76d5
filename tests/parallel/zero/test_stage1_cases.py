"""What people do around training, under every sharded class, beside one process, DDP and FSDP2."""

import re
from functools import cache

import pytest
import sharded_cases

from mathlib import launch


@cache
def told(ranks):
    return launch.run(sharded_cases.table, ranks, timeout=900)


@pytest.mark.parametrize(
    ("ranks", "name"),
    [(ranks, name) for ranks in (2, 5) for name in sharded_cases.expected(ranks)],
)
def test_a_case_is_right_or_refused_by_one_line(ranks, name):
    for rank, said in enumerate(told(ranks)):
        for way, pattern in sharded_cases.expected(ranks)[name].items():
            assert re.match(pattern, said[name, way]), (way, rank, said[name, way])
