"""What waits outside the devices has a verdict of its own, by the node's host and its drives."""

import json

import pytest
from command_line import answered, ended

from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.specs import table

P = params.total("llama2-13b")
BASE = "memory llama2-13b --device rtx-4090 --recipe mixed-adam --recompute full"
CASES = [  # what waits, bytes of a parameter that do, the places that are told: the verdict's start
    ("--offload parameters --host-memory 128GB", 16, "does not fit the host: 208.2 GB of 128 GB"),
    ("--offload parameters --host-memory 256GB", 16, "fits: "),
    ("--offload parameters --nvme 2TB", 16, "fits: "),
    ("--offload parameters --nvme 200GB", 16, "does not fit the NVMe drives: 208.2 GB of 200 GB"),
    ("--offload states --host-memory 256GB", 12, "does not fit: "),
    ("--offload states --host-memory 128GB", 12, "does not fit the host: 156.2 GB of 128 GB"),
    ("--offload all --host-memory 256GB", 16, "fits: "),
]


@pytest.mark.parametrize(("options", "each", "told"), CASES)
def test_what_waits_is_judged_by_the_place_where_it_waits(options, each, told, capsys):
    data = answered(f"{BASE} {options}", capsys)
    assert data["verdict"].startswith(told)
    waits = [fact["value"] for name, fact in data["also"].items() if name.startswith("waits")]
    kept = 40 * 4096 * 5120 * 2 if "all" in options else 0  # a layer's input each
    assert sum(waits) == pytest.approx(each * P + kept, rel=1e-4)  # norms apart
    assert ended(f"{BASE} {options}", capsys)[0] == (not told.startswith("fits"))


def test_devices_of_a_node_share_its_host_as_far_as_they_are_used(capsys):
    """time, memory and plan: one A100 of eight has all 2 TB and all that they update with."""
    line = "--cluster dgx-a100 --offload states"
    one = answered(f"time llama2-7b {line}", capsys)["also"]
    assert one["a device's room on the host"]["value"] == 2e12
    four, many = (
        answered(f"time llama2-7b {line} --zero 1 --data {n}", capsys)["also"] for n in (4, 16)
    )
    assert four["a device's room on the host"]["value"] == 5e11
    assert many["a device's room on the host"]["value"] == 2.5e11
    alone, all_ = (
        answered(f"time llama2-7b {line} --data {n}", capsys)["parts"]["optimizer"] for n in (1, 8)
    )
    rate = 409.6e9 * table("calibrations")["host"]["update"]  # of the whole host, 30 bytes each
    more = 30 * params.total("llama2-7b") * (8 - 1) / rate
    assert all_ - alone == pytest.approx(more, rel=0.03)  # of two tables one is counted
    held = answered("memory llama2-7b --offload states --host-memory 1TB --memory 80GB", capsys)
    assert held["also"]["a device's room on the host"]["value"] == 1e12
    line = "plan llama3-8b --cluster dgx-a100 --devices 1 --batch 8 --offload --tokens 2k"
    for size, code in (("90GB", 1), ("128GB", 0)):  # 12 bytes a parameter are 96 GB
        assert ended(f"{line} --host-memory {size}", capsys)[0] == code, size


def test_a_deepspeed_file_says_what_waits_where(tmp_path, capsys):
    file, zero = tmp_path / "ds.json", {"stage": 3}
    line = f"memory llama2-13b --device rtx-4090 --deepspeed {file} --recompute full"

    def verdict(more, optimizer, parameters):
        config = zero | {"offload_optimizer": {"device": optimizer}}
        config |= {"offload_param": {"device": parameters}} if parameters else {}
        written = {"bf16": {"enabled": True}, "zero_optimization": config}
        file.write_text(json.dumps(written), "utf-8")
        data = answered(f"{line} {more}", capsys)
        assert not any("offload" in name for name in data["flags"]["ignored"])
        return data["verdict"].splitlines()

    host = "--host-memory 128GB"
    assert verdict(host, "cpu", "cpu")[0] == "does not fit the host: 208.2 GB of 128 GB"
    assert verdict(host, "cpu", "")[0] == "does not fit the host: 156.2 GB of 128 GB"
    both = verdict(f"{host} --nvme 2TB", "nvme", "cpu")
    assert both[1:] == [
        "fits the host: 52.06 GB of 128 GB",
        "fits the NVMe drives: 156.2 GB of 2 TB",
    ]
    assert verdict("--nvme 2TB", "nvme", "nvme")[1] == "fits the NVMe drives: 208.2 GB of 2 TB"
    with pytest.raises(InputError, match="--nvme: no effect"):
        verdict("--nvme 2TB --host-memory 1TB", "cpu", "cpu")
    told = "no verdict: 208.2 GB wait on the NVMe drives of a node (say --nvme 2TB)"
    assert verdict("", "nvme", "nvme")[0] == told
    code, _, err = ended(f"{line.replace('memory', 'time', 1)} --data 8", capsys)
    assert code == 2 and 'offload_param.device "nvme": changes memory or time' in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{BASE} --offload parameters --data 2", "only ZeRO 3 lets parameters wait"),
        (f"{BASE} --offload parameters --nvme 0GB", "--nvme 0: expected"),
        ("memory gpt2 --memory 8GB --host-memory 1TB", "--host-memory: no effect"),
        ("time gpt2 --device h100-sxm --offload parameters", "parameters: how long a step takes"),
    ],
)
def test_what_cannot_wait_or_be_timed_is_refused(line, said, capsys):
    code, _, err = ended(line, capsys)
    assert code == 2 and said in err
