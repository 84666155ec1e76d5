"""The hardware tables: complete, in base units, and true to what the hardware is made of."""

import re

import pytest

from mathlib import specs, units
from mathlib.checks import InputError
from mathlib.compute import cost

DEVICES, CLUSTERS = list(specs.table("devices")), list(specs.table("clusters"))
NAMED = {
    "v100-16gb",
    "v100-32gb",
    "a100-40gb",
    "a100-80gb",
    "h100-sxm",
    "h100-pcie",
    "h200-sxm",
    "b200-sxm",
    "mi250",
    "mi250x",
    "mi300x",
    "tpu-v4",
    "tpu-v5e",
    "tpu-v5p",
    "tpu-v6e",
    "rtx-4090",
}


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_has_source_date_and_sane_units(name: str) -> None:
    device = specs.find_device(name)
    assert device.source and re.fullmatch(r"\d{4}-\d{2}", device.date)
    assert 8e9 < device.memory < 1e12 and 1e11 < device.memory_bandwidth < 1e13
    assert device.link_bandwidth <= device.memory_bandwidth, (
        "a link is slower than the memory behind it"
    )
    assert set(device.peak) <= {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8"}


@pytest.mark.parametrize("name", DEVICES)
def test_what_a_device_reports_is_near_what_is_sold(name: str) -> None:
    """A vendor's GB are between 1e9 bytes and GiB, less what error correction takes."""
    device = specs.find_device(name)
    assert not device.reported_memory or 0.99 < device.reported_memory / device.memory < 1.08
    assert device.room == (device.reported_memory or device.memory)


def test_reported_memory_is_what_the_programs_print() -> None:
    mib = {
        name: specs.find_device(name).reported_memory / 2**20
        for name in ("a100-40gb", "a100-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "l40s", "a10")
        + ("b300-sxm", "gb300", "rtx-4090")
    }
    printed = [40960, 81920, 81559, 143771, 183359, 46068, 23028, 275040, 284208, 24564]
    assert list(mib.values()) == printed
    assert specs.find_device("mi300x").reported_memory == 8 * 25767706624, "of its partitions"
    assert specs.find_device("v100-32gb").room == 32e9, "nobody told: what is sold"
    with pytest.raises(InputError, match="reported_memory = -1"):
        specs.Device("x", {"bf16": 1}, 1, 1, 1, 1, reported_memory=-1)


@pytest.mark.parametrize("name", DEVICES)
def test_narrower_types_are_never_slower(name: str) -> None:
    peak = specs.find_device(name).peak
    ladder = [peak[kind] for kind in ("fp64", "fp32", "tf32", "fp16", "fp8", "fp4") if kind in peak]
    assert ladder == sorted(ladder)
    assert "bf16" not in peak or "fp16" not in peak or peak["bf16"] == peak["fp16"]


def test_all_devices_of_the_book_are_there() -> None:
    assert set(DEVICES) >= NAMED


@pytest.mark.parametrize(
    ("name", "dtype", "clock", "fused", "cores"),
    [
        ("v100-32gb", "fp16", 1530e6, 64, 640),
        ("a100-80gb", "bf16", 1410e6, 256, 432),
        ("h100-sxm", "bf16", 1830e6, 512, 528),
        ("mi250", "bf16", 1700e6, 128, 832),
        ("mi250x", "bf16", 1700e6, 128, 880),
        ("mi250x", "fp64", 1700e6, 32, 880),
        ("mi300x", "bf16", 2100e6, 256, 1216),
        ("mi300x", "fp64", 2100e6, 32, 1216),
        ("mi325x", "fp8", 2100e6, 512, 1216),
        ("mi355x", "bf16", 2400e6, 512, 1024),
        ("mi355x", "fp8", 2400e6, 1024, 1024),
        ("mi355x", "fp4", 2400e6, 2048, 1024),
        ("a100-80gb", "fp64", 1410e6, 16, 432),
        ("a10", "bf16", 1695e6, 128, 288),
        ("l40s", "fp8", 2520e6, 256, 568),
        ("rtx-4090", "bf16", 2520e6, 64, 512),
    ],
)
def test_peaks_follow_from_clock_and_cores(
    name: str, dtype: str, clock: float, fused: int, cores: int
) -> None:
    built = cost.peak_flops(clock=clock, fused_per_clock=fused, cores=cores)
    assert specs.find_device(name).flops_per_second(dtype) == pytest.approx(built, rel=0.003)


@pytest.mark.parametrize(
    ("name", "dtype", "cards", "petaflops"),
    [
        ("b200-sxm", "fp4", 8, 72),
        ("b300-sxm", "fp4", 8, 108),
        ("b300-sxm", "fp8", 8, 72 / 2),
        ("b300-sxm", "bf16", 8, 36 / 2),
        ("b300-sxm", "tf32", 8, 18 / 2),
        ("b300-sxm", "fp32", 8, 0.6),
        ("b300-sxm", "fp64", 8, 0.01),
        ("gb300", "fp4", 72, 1080),
        ("gb300", "fp8", 72, 720 / 2),
        ("gb300", "bf16", 72, 360 / 2),
        ("gb300", "tf32", 72, 180 / 2),
    ],
)
def test_peaks_add_up_to_what_is_printed_for_board_and_rack(
    name: str, dtype: str, cards: int, petaflops: float
) -> None:
    """FP4 is printed dense as well; of the other tensor types only the figure with sparsity."""
    together = cards * specs.find_device(name).flops_per_second(dtype)
    assert together == pytest.approx(petaflops * 1e15)


def test_links_to_the_neighbours_are_those_not_taken() -> None:
    """Of a die's 8 links 4 lead to its twin, 1 to the host. MI355X: a link is 16 lanes wide."""
    dies, links, twin, host = 2, 8, 4, 1
    assert specs.find_device("mi250x").link_bandwidth == dies * (links - twin - host) * 50e9
    assert specs.find_device("mi325x").link_bandwidth == 7 * 64e9
    lane = units.parse("lane", "38.4 Gbit/s", "byte/s")
    assert specs.find_device("mi355x").link_bandwidth == pytest.approx(7 * 16 * lane)


@pytest.mark.parametrize("name", DEVICES)
def test_a_link_printed_in_both_directions_is_half_here(name: str) -> None:
    device = specs.find_device(name)
    printed = re.search(r"(\d+) GB/s both directions", device.source)
    assert not printed or device.link_bandwidth == float(printed[1]) * 1e9 / 2
    links = re.search(r"(\d+) links[^,;]*?,? (?:of )?([\d.]+) GB/s", device.source)
    together = float(links[1]) * float(links[2]) * 1e9 if links else device.link_bandwidth
    assert device.link_bandwidth == pytest.approx(together)
    assert printed or links or "no NVLink" in device.source, (
        "the source says how the figure came about"
    )


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_node_sends_what_its_cards_send(name: str) -> None:
    cluster = specs.find_cluster(name)
    assert specs.find_device(cluster.device) and re.fullmatch(r"\d{4}-\d{2}", cluster.date)
    cards, speed = re.search(
        r"(?:(\d+) [\w ]+ (?:cards|ports) of )?(\d+ Gbit/s)", cluster.source
    ).groups()  # type: ignore[union-attr]
    assert cluster.node_bandwidth == int(cards or 1) * units.parse("card", speed, "byte/s")
    assert (
        cluster.node_bandwidth
        < cluster.devices_per_node * specs.find_device(cluster.device).link_bandwidth
    )


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: specs.find_device("h100"), "device = 'h100': did you mean"),
        (lambda: specs.find_device("v100-32gb").flops_per_second("bf16"), "dtype = 'bf16'"),
        (lambda: specs.find_cluster("p4d"), "cluster = 'p4d'"),
        (lambda: cost.peak_flops(clock=0, fused_per_clock=1, cores=1), "clock = 0"),
        (lambda: specs.Device("x", {"bf16": -1}, 1, 1, 1, 1), "peak.bf16 = -1"),
        (lambda: specs.Device("x", {"bf16": 1}, 1, 1, 1, -1), "power = -1"),
        (lambda: specs.Cluster("x", "h100-sxm", 0, 1), "devices_per_node = 0"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
