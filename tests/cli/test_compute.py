"""mathlib params and flops: the library's counts, a run's time and price as far as is said."""

import pytest
from command_line import answered, args

from mathlib import specs, units
from mathlib.checks import InputError
from mathlib.cli import compute
from mathlib.compute import cost, flops, params


def test_a_runs_facts_are_those_of_cost():
    line = "flops gpt3-175b --train 300B --device a100-80gb --devices 1024 --price 2"
    given = args(line)
    found = {name: (n, unit) for name, n, unit in compute.run_facts(given, 1e12)}
    chip = specs.find_device("a100-80gb")
    rate = chip.flops_per_second("bf16") * given.utilization
    seconds = cost.training_time(flop=3e23, devices=1024, achieved=rate)
    hours = cost.device_hours(devices=1024, seconds=seconds)
    assert found["run"] == (3e23, "FLOP") and found["run in PF/s-days"][0] == units.pf_days(3e23)
    assert found["time"] == (seconds, "second") and found["device-hours"][0] == hours
    assert found["price"][0] == cost.price(device_hours=hours, price_per_hour=2)


def test_facts_of_a_run_end_where_the_options_end():
    assert compute.run_facts(args("flops gpt2"), 1.0) == []
    names = [name for name, *_ in compute.run_facts(args("flops gpt2 --train 1B"), 1.0)]
    assert names == ["run", "run in PF/s-days"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("flops gpt2 --devices 8", "--train: needed"),
        ("flops gpt2 --train 1B --devices 8", "--device, --devices"),
        ("flops gpt2 --train 1B --device a100-80gb", "--device, --devices"),
    ],
)
def test_a_time_needs_all_it_is_made_of(line, told):
    with pytest.raises(InputError, match=told):
        compute.run_facts(args(line), 1.0)


def test_a_step_is_counted_per_token_against_six_of_the_active_parameters(capsys):
    data = answered("flops deepseek-v3 --tokens 64", capsys)
    model = specs.find_model("deepseek-v3")
    assert data["total"] == flops.training(model, tokens=64, causal=args("flops gpt2").causal).total
    also = {name: fact["value"] for name, fact in data["also"].items()}
    assert also["per token"] == data["total"] / 64
    assert also["6N per token"] == 6 * params.active(model).total
    assert also["counted / 6N"] == pytest.approx(also["per token"] / also["6N per token"])
