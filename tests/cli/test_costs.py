"""mathlib cost: a run's bill from the library's own functions."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import costs
from mathlib.compute import cost, flops
from mathlib.plan import rent
from mathlib.specs import find_device


def test_a_bill_is_the_librarys(capsys):
    line = "cost llama2-7b --train 2T --device a100-80gb --devices 64 --price 2 --co2 0.385"
    also = answered(f"{line} --utilization 50%", capsys)["also"]
    flop = flops.run("llama2-7b", total_tokens=2e12).total
    seconds = cost.training_time(flop=flop, devices=64, achieved=156e12)
    hours = cost.device_hours(devices=64, seconds=seconds)
    kwh = cost.energy_kwh(device_hours=hours, watts=find_device("a100-80gb").power, pue=1.1)
    wanted = {
        "run": flop,
        "time": seconds,
        "device-hours": hours,
        "price": cost.price(device_hours=hours, price_per_hour=2),
        "energy at rated power": kwh,
        "CO2": cost.co2_kg(energy_kwh=kwh, kg_per_kwh=0.385),
    }
    assert {name: also[name]["value"] for name in wanted} == pytest.approx(wanted)


def test_a_deadline_gives_the_devices(capsys):
    line = "cost llama2-7b --train 2T --device a100-80gb --within 30days"
    also = answered(line, capsys)["also"]
    assert also["time"]["value"] <= 30 * 86400
    fewer = line.replace("--within 30days", f"--devices {also['devices']['value'] - 1}")
    assert answered(fewer, capsys)["also"]["time"]["value"] > 30 * 86400


def test_flops_and_cost_agree_on_a_run(capsys):
    shared = "gpt3-175b --train 300B --device a100-80gb --devices 1024 --price 2"
    one, two = (answered(f"{name} {shared}", capsys)["also"] for name in ("flops", "cost"))
    for name in ("time", "device-hours", "price", "run"):
        assert one[name]["value"] == pytest.approx(two[name]["value"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--device a100-80gb", "--devices or --within"),
        ("--device a100-80gb --devices 8 --within 8h", "--devices or --within"),
        ("--device a100 --devices 8", "did you mean a100-40gb"),
        ("--device tpu-v5p --devices 8 --co2 0.4", "no rated power"),
        ("--device tpu-v5p --devices 8 --pue 1.2", "--pue: no effect"),
    ],
)
def test_a_bill_that_cannot_be_made_is_refused(options, told):
    with pytest.raises(InputError, match=told):
        costs.cost_command(args(f"cost gpt2 --train 1B {options}"))


def test_a_list_gives_a_bill_for_each_way_to_rent(capsys):
    base = "cost gpt2 --train 10B --device h100-pcie --devices 8"
    also = answered(f"{base} --rent hyperstack-h100-pcie", capsys)["also"]
    one, hours = rent.find_price("hyperstack-h100-pcie"), also["device-hours"]["value"]
    for mode, paid in one.modes.items():
        fact = also[f"{mode}, {paid:g} an hour"]
        assert fact == {"value": hours * paid, "unit": "USD"}
    kept = {m: also[f"goodput spot must keep against {m}"]["value"] for m in list(one.modes)[:2]}
    assert kept["on demand"] == pytest.approx(0.8) and kept["reserved"] > 1
    explained = answered(f"why {base} --rent hyperstack-h100-pcie", capsys)["formulas"]
    paid = {row["what"]: row["value"] for row in explained}
    assert paid["price spot"] == pytest.approx(hours * one.spot)
    alone = answered(f"{base} --rent hyperstack-h100-pcie".replace("-pcie", "-sxm"), capsys)["also"]
    assert not any("goodput" in name for name in alone), "that list has no spot"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--rent hyperstack-h100-pcie --price 2", "leave --price out"),
        ("--rent aws-p5en.48xlarge", "is a price of h200-sxm, not of h100-pcie"),
        ("--rent hyperstack", "no such name; did you mean .*`mathlib prices` lists all"),
    ],
)
def test_a_price_that_is_none_of_this_device_is_refused(options, told):
    with pytest.raises(InputError, match=told):
        line = f"cost gpt2 --train 1B --device h100-pcie --devices 8 {options}"
        costs.cost_command(args(line))
