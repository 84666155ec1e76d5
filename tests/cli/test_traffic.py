"""mathlib comm and groups: the library's bytes, times and grids."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import traffic
from mathlib.memory import states
from mathlib.specs import Layout
from mathlib.traffic import comm, mesh, volumes


def test_a_message_takes_what_comm_says(capsys):
    line = "comm all-gather --payload 1GB --ranks 8 --bandwidth 100GB/s --latency 1us"
    data = answered(line, capsys)
    told = {"payload": 1e9, "ranks": 8, "algorithm": args(line).algorithm}
    assert data["a rank sends"]["value"] == comm.sent("all-gather", **told)
    took = comm.time("all-gather", **told, bandwidth=1e11, latency=1e-6)
    assert data["time"]["value"] == took.total


def test_a_steps_bytes_are_by_kind_of_parallelism(capsys):
    line = "comm step gpt2 --data 4 --tensor 2 --micro-batches 2"
    data = answered(line, capsys)
    weights = states.stage_parameters("gpt2", Layout(tensor=2), 0).total
    wanted = volumes.zero(parameters=weights, data=4, stage=0, shard=None, micro_batches=2)
    assert data["parts"]["data"]["total"] == wanted.total
    assert data["parts"]["pipeline"]["total"] == 0


def test_more_ranks_than_anybody_reads_are_refused():
    with pytest.raises(InputError, match="--world"):
        traffic.groups_command(args(f"groups --world {2 * traffic.MOST_RANKS}"))


def test_experts_and_all_other_layers_have_a_grid_each():
    sizes, groups = traffic.groups_of(args("groups --world 8 --tensor 2 --expert 2"))
    assert sizes == mesh.megatron(world=8, tp=2, ep=2).sizes and sizes["ep"] == 2
    dense = mesh.megatron(world=8, tp=2)
    assert groups["dense dp"] == dense.groups("dp") != groups["dp"]
    assert "dense tp" not in groups, "what does not differ is said once"
