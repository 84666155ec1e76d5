"""Each axis as its own formula has it; the run's bytes by axis are in tests/trials."""

import pytest

from mathlib.layout import Layout
from mathlib.memory import states
from mathlib.traffic import volumes
from mathlib.traffic.by_axis import by_axis

THREE = {"data": 4, "tensor": 8, "pipeline": 2, "sequence_parallel": True, "micro_batches": 8}


def test_an_axis_of_one_rank_sends_nothing():
    assert by_axis("llama3-8b", layout=Layout()).total == 0
    assert set(by_axis("llama3-70b", layout=Layout(**THREE))) == {"tensor", "pipeline", "data"}
    for axis in ("data", "tensor", "pipeline"):
        assert list(by_axis("llama3-8b", layout=Layout(**{axis: 2}))) == [axis]
    found = by_axis("llama3-8b", layout=Layout(context=2))
    assert list(found) == ["context", "data"], "they hold the same weights"


def test_data_parallel_bytes_are_those_of_a_stages_own_parameters():
    lay = Layout(**THREE, zero=1)
    own = states.stage_parameters("llama3-70b", lay, 1).total
    wanted = volumes.zero(parameters=own, data=4, stage=1, gradient_bytes=4).total
    found = by_axis("llama3-70b", layout=lay, stage=1, gradient_bytes=4)
    assert found.amount("data") == wanted


def test_experts_have_copies_of_their_own_and_no_tensor_sums():
    lay = Layout(data=8, tensor=2, sequence_parallel=True, expert=4, expert_tensor=1)
    found = by_axis("mixtral-8x7b", layout=lay, tokens=4096)
    of = {"expert": 4, "tensor": 2, "expert_tensor": 1, "tokens": 4096}
    assert found.amount("expert") == volumes.expert_parallel("mixtral-8x7b", **of).total
    dense_of = {"data": 8, "tensor": 2, "sequence_parallel": True}
    dense = by_axis("mistral-7b", layout=Layout(**dense_of), tokens=4096)
    times = dense.amount("tensor") / found.amount("tensor")
    assert 1.9 < times < 2.05, "attention and MLP beside attention alone"
    own = states.stage_parameters("mixtral-8x7b", lay)
    experts = volumes.zero(parameters=own.amount("experts"), data=4).total
    rest = volumes.zero(parameters=own.total - own.amount("experts"), data=8).total
    assert found.amount("data") == pytest.approx(experts + rest)


def test_a_tied_table_is_summed_between_first_and_last_stage():
    tied = by_axis("llama3.2-1b", layout=Layout(pipeline=4, micro_batches=4))
    assert tied.amount("tied table") == 2 * 128256 * 2048
    middle = by_axis("llama3.2-1b", layout=Layout(pipeline=4, micro_batches=4), stage=1)
    assert list(middle) == ["pipeline"]
