"""mathlib time: the planner's step, on the cluster that was named."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import steps
from mathlib.cli.options import layout_of, model_of
from mathlib.cli.registry import find_command
from mathlib.compute import conventions
from mathlib.plan import step
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import host_of, machine
from mathlib.specs import Layout, find_cluster, find_device, table


def test_a_step_is_the_librarys(capsys):
    line = "time llama3-8b --cluster p5.48xlarge --data 8 --zero 1 --micro-batches 16 --train 1T"
    data = answered(line, capsys)
    on = machine("llama3-8b", find_cluster("p5.48xlarge"), find_rates("h100-sxm"))
    lay = Layout(data=8, zero=1, micro_batches=16)
    took = step.step(on, lay).total
    also = {name: fact["value"] for name, fact in data["also"].items()}
    assert data["total"] == took and also["MFU"] == step.utilization(on, lay)
    between = step.interval(on, lay)
    assert between.low < took < between.high
    assert (also["80% interval, from"], also["80% interval, to"]) == (between.low, between.high)
    assert also["whole run"] == pytest.approx(1e12 / (128 * 8192) * took)
    assert also["tokens a second of a device"] == pytest.approx(128 * 8192 / took / 8)


def test_a_program_and_a_precision_change_the_answer(capsys):
    line = "time llama2-7b --device h100-sxm --data 8 --zero 3"
    base = answered(line, capsys)["total"]
    assert answered(f"{line} --program fsdp", capsys)["total"] != base
    assert answered(f"{line} --precision fp8", capsys)["total"] < base


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", "--cluster: needed"),
        ("--cluster p5.48xlarge --device h100-sxm", "leave --device out"),
        ("--cluster p6", "`mathlib clusters` lists all"),
    ],
)
def test_a_machine_that_is_none_is_refused(options, told):
    typed = args(f"time gpt2 {options}")
    with pytest.raises(InputError, match=told):
        steps.cluster_of(typed)


def test_a_devices_cluster_is_the_first_that_is_made_of_it():
    assert steps.cluster_of(args("time gpt2 --device H100-SXM")).device == "h100-sxm"


def test_stages_may_be_uneven_but_not_empty(capsys):
    """Llama 3 405B ran its 126 layers on 16 stages; `comm step` counts equal stages alone."""
    line = "llama3-405b --tensor 8 --pipeline 16 --data 64 --sequence-parallel"
    data = answered(f"time {line} --device h100-sxm", capsys)
    assert data["also"]["devices"]["value"] == 8192
    with pytest.raises(InputError, match="pipeline = 16: does not divide layers = 126; accepted"):
        typed = args(f"comm step {line}")
        layout_of(typed, model_of(typed))
    two = answered(f"time {line} --device h100-sxm --chunks 2", capsys)
    assert two["total"] < data["total"]
    with pytest.raises(InputError, match="chunks = 3: does not divide the layers of the fullest"):
        steps.time_command(args(f"time {line} --device h100-sxm --chunks 3"))
    with pytest.raises(InputError, match="pipeline = 127: more than layers = 126"):
        steps.time_command(args("time llama3-405b --device h100-sxm --pipeline 127"))


def test_what_waits_on_the_host_is_the_librarys_and_asks_for_a_host(capsys):
    line = "time llama2-13b --cluster dgx-a100 --data 8 --zero 1"
    nodes = find_cluster("dgx-a100")
    on = machine("llama2-13b", nodes, find_rates("a100-80gb"), host=host_of(nodes))
    lay = Layout(data=8, zero=1)
    data = answered(f"{line} --offload states", capsys)
    assert data["total"] == step.step(on, lay, offload="states").total
    assert data["also"]["MFU"]["value"] == step.utilization(on, lay, offload="states")
    assert data["title"].endswith("states on the host, as in no run that was fitted")
    quick = answered(f"{line} --offload states --host-link 64GB/s", capsys)
    assert quick["total"] < data["total"], "what is typed goes before the data sheet"
    other = "time llama2-13b --cluster p4de.24xlarge --data 8 --zero 1 --offload states"
    with pytest.raises(InputError, match="nobody told --host-memory, --host-link, --host-bandw"):
        steps.time_command(args(other))
    told = "--host-memory 1152GiB --host-link 16GB/s --host-bandwidth 280GB/s"
    assert answered(f"{other} {told}", capsys)["total"] > 0
    with pytest.raises(InputError, match="--host-link: no effect"):
        steps.time_command(args(f"{line} --host-link 64GB/s"))
    with pytest.raises(InputError, match="offload = 'weights'"):
        steps.time_command(args(f"{line} --offload weights"))


def test_a_step_says_what_its_layout_needs_and_how_likely_that_is_too_much(capsys):
    """The same as the plan says of the same layout."""
    line = "llama2-7b --cluster dgx-a100 --devices 8 --batch 64 --top 3"
    for row in answered(f"plan {line}", capsys)["layouts"]:
        lay = Layout(**row["layout"])
        options = f"--data {lay.data} --tensor {lay.tensor} --zero {lay.zero} --context-parallel "
        options += f"{lay.context} --micro-batch {lay.micro_batch} --recompute {lay.recompute} "
        options += f"--micro-batches {lay.micro_batches}"
        options += " --sequence-parallel" if lay.sequence_parallel else ""
        also = answered(f"time llama2-7b --cluster dgx-a100 {options}", capsys)["also"]
        assert also["memory of the fullest device"]["value"] == row["memory"]["value"]
        assert also["chance that it is too much"]["value"] == row["risk"]
    too_much = answered("time gpt3-175b --cluster dgx-a100 --data 8", capsys)["also"]
    assert too_much["chance that it is too much"]["value"] > 0.9
    base = "time llama2-13b --cluster dgx-a100 --data 8 --zero 1"
    here, there = (answered(f"{base}{o}", capsys)["also"] for o in ("", " --offload both"))
    key = "memory of the fullest device"
    assert there[key]["value"] < 0.7 * here[key]["value"]
    assert there["waits on the host"]["value"] > here[key]["value"] - there[key]["value"]
    assert (
        there["a device's room on the host"]["value"] == 2e12 / 8
        and "waits on the host" not in here
    )


@pytest.mark.parametrize("line", find_command("time").examples)
def test_no_example_shows_a_step_that_runs_out_of_memory(line, capsys):
    assert answered(line, capsys)["also"]["chance that it is too much"]["value"] < 0.15


def test_amds_cards_have_a_cluster_too(capsys):
    assert answered("time llama3-8b --device mi300x --data 8 --zero 3", capsys)["total"] > 0


def test_one_device_is_one(capsys):
    assert "on 1 device of" in answered("time gpt2 --device a100-80gb", capsys)["title"]
    title = answered("time gpt2 --device a100-80gb --data 2", capsys)["title"]
    assert "on 2 devices of" in title


def test_a_step_comes_with_a_verdict_its_chance_and_what_the_host_holds(capsys):
    line = "time llama2-13b --cluster dgx-a100 --data 8 --zero 2"
    alone = answered(line, capsys)["verdict"]
    assert alone.startswith("fits") and "less 4 GB left for the rest" in alone
    assert alone.endswith("64% of runs predicted like it are too much")
    hosted = answered(f"{line} --offload states", capsys)["verdict"]
    assert hosted.startswith("fits: ")
    small = answered(f"{line} --offload states --host-memory 128GB", capsys)["verdict"]
    assert small.startswith("does not fit the host: 156.2 GB of 128 GB")


@pytest.mark.parametrize("device", table("devices"))
def test_every_device_works_alone_and_in_a_node(device, capsys):
    for line in (
        f"time gpt2 --device {device}",
        f"time gpt2 --device {device} --data 4 --zero 1",
        f"plan gpt2 --device {device} --devices 4 --batch 8 --top 1",
        f"fit gpt2 --device {device}",
    ):
        assert answered(line, capsys), line
    named = device in {table("clusters")[name]["device"] for name in table("clusters")}
    assert (
        "assumed 8 in a node" in steps.cluster_of(args(f"time --device {device}")).title
    ) != named


def test_an_own_cluster_is_a_small_file(tmp_path, capsys):
    file, line = tmp_path / "mine.toml", "time llama3-8b --data 16 --zero 3 --cluster"
    rows = {"device": "l40s", "node_bandwidth": "200Gbit/s", "host_memory": "512 GB"}
    told = "".join(f'{name} = "{value}"\n' for name, value in rows.items())
    file.write_text(f"{told}devices_per_node = 4\n", "utf-8")
    found = steps.cluster_of(args(f"{line} {file}"))
    assert (found.name, found.device, found.devices_per_node) == ("mine", "l40s", 4)
    assert (found.node_bandwidth, found.host_memory) == (25e9, 512e9)
    small, known = (answered(f"{line} {one}", capsys)["total"] for one in (file, "p5.48xlarge"))
    assert small > 2 * known, "fewer FLOP/s, a slower network"
    for text, said in (
        ("device = ", "expected a TOML file"),
        ('device = "l40s"', "expected devices_per_node"),
        (f"{told}devices_per_node = 4\nnodes = 3", "field = 'nodes'"),
        (told.replace("l40s", "l41"), "expected devices_per_node"),
        (told.replace("200Gbit/s", "fast") + "devices_per_node = 4", "node_bandwidth = "),
    ):
        file.write_text(text, "utf-8")
        with pytest.raises(InputError, match=said):
            steps.cluster_of(args(f"{line} {file}"))
    with pytest.raises(InputError, match="cannot be read"):
        steps.cluster_of(args(f"{line} /dev/zero.toml"))


def test_mfu_of_fp8_is_a_share_of_its_peak_and_says_so(capsys):
    line = "llama3-8b --device h100-sxm --precision fp8"
    also = answered(f"time {line} --data 8 --zero 1", capsys)["also"]
    device = find_device("h100-sxm")
    assert "MFU" not in also and {"MFU of fp8 peak", "HFU of fp8 peak"} <= also.keys()
    each = (
        also["tokens a second of a device"]["value"]
        * conventions.training_flop("llama3-8b", convention="palm").total
    )
    share = also["MFU of fp8 peak"]["value"]
    assert share == pytest.approx(each / device.peak["fp8"], rel=0.1)
    row = answered(f"plan {line} --devices 8 --batch 8 --top 1", capsys)["layouts"][0]
    find_command("plan").answer(args(f"plan {line} --devices 8 --batch 8 --top 1"))
    assert "MFU of fp8 peak" in capsys.readouterr().out and row["mfu"] < 0.6
