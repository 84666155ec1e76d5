"""What people do around training, under every sharded class, beside one process, DDP and FSDP2."""

import re

import pytest
import sharded_cases

from mathlib import launch


@pytest.fixture(scope="module", params=[2, 5], ids=lambda ranks: f"{ranks} ranks")
def told(request):
    return launch.run(sharded_cases.table, request.param, timeout=900)


@pytest.mark.parametrize("name", sharded_cases.CASES)
def test_a_case_is_right_or_refused_by_one_line(name, told):
    for rank, said in enumerate(told):
        for way, pattern in sharded_cases.expected(name).items():
            assert re.match(pattern, said[name, way]), (way, rank, said[name, way])
