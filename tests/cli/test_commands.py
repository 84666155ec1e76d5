"""What a command works out: the model and the layout its options describe, and the library's
numbers.
"""

import json
from dataclasses import fields

import pytest

from mathlib import specs, units
from mathlib.checks import InputError
from mathlib.cli import commands
from mathlib.cli.parser import build
from mathlib.compute import cost, flops, params
from mathlib.specs import Layout
from mathlib.traffic import comm, volumes


def args(line):
    return build().parse_args(line.split())


def answered(command, line, capsys):
    command(args(f"{line} --json"))
    return json.loads(capsys.readouterr().out)


def test_a_named_model_is_the_librarys_until_an_option_changes_it():
    assert commands.model_of(args("params gpt2-xl")) == specs.find_model("gpt2-xl")
    changed = commands.model_of(args("params gpt2-xl --layers 2"))
    assert (changed.layers, changed.width) == (2, specs.find_model("gpt2-xl").width)
    assert changed.name.endswith(", changed")


def test_a_shape_alone_is_a_gpt2_of_that_shape():
    model = commands.model_of(args("params --layers 3 --width 128"))
    assert (model.layers, model.width, model.heads, model.head_dim) == (3, 128, 2, 64)
    assert model.vocab == specs.find_model("gpt2").vocab


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("params", "model: expected"),
        ("params --layers 3", "model: expected"),
        ("params --layers 3 --width 100", "--heads is needed"),
    ],
)
def test_half_a_shape_is_refused_with_what_is_missing(line, told):
    with pytest.raises(InputError, match=told):
        commands.model_of(args(line))


def test_every_field_of_a_layout_has_an_option():
    layout = commands.layout_of(args("memory gpt2 --data 4 --tensor 2 --zero 1 --micro-batch 3"))
    assert layout == Layout(data=4, tensor=2, zero=1, micro_batch=3)
    given = vars(args("memory gpt2"))
    assert {field.name for field in fields(Layout)} <= set(given)


def test_a_runs_facts_are_those_of_cost():
    line = "flops gpt3-175b --train 300B --device a100-80gb --devices 1024 --price 2"
    given = args(line)
    found = {name: (n, unit) for name, n, unit in commands.run_facts(given, 1e12)}
    chip = specs.find_device("a100-80gb")
    rate = chip.flops_per_second(given.dtype) * given.utilization
    seconds = cost.training_time(flop=3e23, devices=1024, achieved=rate)
    hours = cost.device_hours(devices=1024, seconds=seconds)
    assert found["run"] == (3e23, "FLOP") and found["run in PF/s-days"][0] == units.pf_days(3e23)
    assert found["time"] == (seconds, "second") and found["device-hours"][0] == hours
    assert found["price"][0] == cost.price(device_hours=hours, price_per_hour=2)


def test_facts_of_a_run_end_where_the_options_end():
    assert commands.run_facts(args("flops gpt2"), 1.0) == []
    names = [name for name, *_ in commands.run_facts(args("flops gpt2 --train 1B"), 1.0)]
    assert names == ["run", "run in PF/s-days"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("flops gpt2 --devices 8", "train: needed"),
        ("flops gpt2 --train 1B --devices 8", "device, devices"),
        ("flops gpt2 --train 1B --device a100-80gb", "device, devices"),
    ],
)
def test_a_time_needs_all_it_is_made_of(line, told):
    with pytest.raises(InputError, match=told):
        commands.run_facts(args(line), 1.0)


def test_a_step_is_counted_per_token_against_six_of_the_active_parameters(capsys):
    data = answered(commands.flops_command, "flops deepseek-v3 --tokens 64", capsys)
    model = specs.find_model("deepseek-v3")
    assert data["total"] == flops.training(model, tokens=64, causal=args("flops gpt2").causal).total
    also = {name: fact["value"] for name, fact in data["also"].items()}
    assert also["per token"] == data["total"] / 64
    assert also["6N per token"] == 6 * params.active(model).total
    assert also["counted / 6N"] == pytest.approx(also["per token"] / also["6N per token"])


def test_a_message_takes_what_comm_says(capsys):
    line = "comm all-gather --payload 1GB --ranks 8 --bandwidth 100GB/s --latency 1us"
    data = answered(commands.comm_command, line, capsys)
    told = {"payload": 1e9, "ranks": 8, "algorithm": args(line).algorithm}
    assert data["a rank sends"]["value"] == comm.sent("all-gather", **told)
    took = comm.time("all-gather", **told, bandwidth=1e11, latency=1e-6)
    assert data["time"]["value"] == took.total


def test_a_steps_bytes_are_by_kind_of_parallelism(capsys):
    line = "comm step gpt2 --data 4 --tensor 2 --micro-batches 2"
    data = answered(commands.comm_command, line, capsys)
    weights = params.total("gpt2") / 2
    wanted = volumes.zero(parameters=weights, data=4, stage=0, shard=None, micro_batches=2)
    assert data["parts"]["data"]["total"] == wanted.total
    assert data["parts"]["pipeline"]["total"] == 0


def test_more_ranks_than_anybody_reads_are_refused():
    with pytest.raises(InputError, match="world = "):
        commands.groups_command(args(f"groups --world {2 * commands.MOST_RANKS}"))
