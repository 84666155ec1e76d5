"""What a device keeps free for what no formula counts is data, the same for every command."""

import inspect

import pytest

from mathlib.checks import InputError
from mathlib.memory.reserve import Reserve, find_reserve
from mathlib.plan import planner


def test_the_planner_leaves_what_the_data_says():
    for asked in (planner.search, planner.largest, planner.fitting, planner.verdict):
        assert inspect.signature(asked).parameters["reserve"].default == find_reserve().bytes


def test_a_program_that_nobody_read_leaves_the_usual():
    assert find_reserve("nanotron") == find_reserve() and find_reserve().of(80e9) == 4e9
    assert find_reserve("vllm").of(80e9) == 8e9 and "gpu_memory" in find_reserve("vllm").source


def test_a_reserve_leaves_something():
    with pytest.raises(InputError, match="share = 1: expected less than 1"):
        Reserve(bytes=0, share=1)
    with pytest.raises(InputError, match="bytes = -1"):
        Reserve(bytes=-1, share=0)
