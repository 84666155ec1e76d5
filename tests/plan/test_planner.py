"""Inverse questions find what trying finds, and what would have to change to make it fit."""

from dataclasses import replace
from math import inf

import pytest

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.room import Room
from mathlib.plan.work import OFFLOAD
from mathlib.specs import find_cluster
from mathlib.traffic import mesh

CLUSTER, RATES = find_cluster("dgx-h100"), find_rates("h100-sxm")
ON = step.machine("llama3-8b", CLUSTER, RATES, tokens=4096)


def test_what_would_have_to_change() -> None:
    on = step.machine("llama3-70b", CLUSTER, RATES, tokens=8192)
    lay = Layout(data=64, tensor=4, sequence_parallel=True, micro_batches=8)
    assert not planner.verdict(on, lay)
    changes = planner.fitting(on, lay)
    assert changes == sorted(changes, key=lambda one: one[1].seconds)
    words = [what for what, _ in changes]
    assert "ZeRO stage 3" in words and "as it is" not in words
    for _, one in changes:
        assert one.layout.world == lay.world and one.layout.sequences == lay.sequences
        assert planner.verdict(on, one.layout)
    fits = replace(lay, zero=3, recompute="full")
    assert [what for what, _ in planner.fitting(on, fits)] == ["as it is"]


def test_a_million_ranks_are_grouped_by_arithmetic() -> None:
    lay = Layout(data=2**13, tensor=8, pipeline=16, sequence_parallel=True)
    grid = mesh.of_layout(lay)
    assert grid.world == 2**20
    assert sum(map(len, grid.groups("dp"))) == 2**20


def test_the_fewest_devices_are_those_below_which_none_fits() -> None:
    found = planner.fewest(ON, sequences=16)
    assert found.value == found.choice.layout.world and found.choice.layout.sequences == 16
    assert planner.verdict(ON, found.choice.layout)
    for n in range(1, found.value):
        assert not planner.search(ON, devices=n, sequences=16), n
    assert str(found).startswith(f"{found.value} devices") and "none of" in found.beyond
    nothing = planner.fewest(ON, sequences=16, most_devices=1)
    assert not nothing and nothing.value == 0 and "no number of devices" in str(nothing)


def test_one_device_is_one() -> None:
    small = step.machine("gpt2", CLUSTER, RATES, tokens=1024)
    assert str(planner.fewest(small, sequences=1)).startswith("1 device\n")


def test_the_fewest_devices_for_a_deadline() -> None:
    free = planner.fewest(ON, sequences=64)
    quick = planner.fewest(ON, sequences=64, within=free.choice.seconds / 4)
    assert quick.value >= 4 * free.value and quick.choice.seconds <= free.choice.seconds / 4
    assert "a step takes at least" in quick.beyond


def test_the_longest_sequence_fits_and_a_longer_one_does_not() -> None:
    found = planner.longest(ON, devices=8, multiple=8192)
    s = found.value
    assert s % 8192 == 0 and "too much: activations" in found.beyond
    assert planner.search(replace(ON, tokens=s), devices=8, sequences=1)
    assert not planner.search(replace(ON, tokens=s + 8192), devices=8, sequences=1)
    assert planner.verdict(replace(ON, tokens=s), found.choice.layout)
    assert planner.longest(ON, devices=8, multiple=8192, most_tokens=3 * 8192).value == 3 * 8192
    assert planner.longest(ON, devices=8, multiple=8192, most_tokens=5 * 8192).value == 5 * 8192
    learned = step.machine("gpt2", CLUSTER, RATES)
    assert planner.longest(learned, devices=8).value == 1024
    assert not planner.longest(step.machine("llama3-70b", CLUSTER, RATES), devices=2)


def test_the_largest_batch_is_what_every_layout_was_asked_for() -> None:
    room, left = Room(ON.model, 4096), ON.device.room - 4e9
    most = {"sequences": 0, "micro_batch": 0}
    for B in (1, 2, 4, 8):
        asked = {"tokens": 4096, "devices": 8, "sequences": B, "node": 8, "micro_batch": 1}
        for way in planner.ways(ON.model, **asked):
            b = 0
            while (
                way.micro_batches == way.pipeline
                and room.total(way._replace(micro_batch=b + 1)) <= left
            ):
                b += 1
            most["micro_batch"] = max(most["micro_batch"], b)
            most["sequences"] = max(most["sequences"], b * B)
    for what, value in most.items():
        found = planner.largest(ON, devices=8, what=what)
        assert found.value == value > 50
        lay = found.choice.layout
        assert planner.verdict(ON, lay)
        assert not planner.verdict(ON, replace(lay, micro_batch=lay.micro_batch + 1))
        assert found.value == (lay.sequences if what == "sequences" else lay.micro_batch)
    assert not planner.largest(step.machine("llama3-70b", CLUSTER, RATES), devices=2)


def test_the_largest_batch_is_as_careful_as_asked_and_as_the_program_keeps() -> None:
    free = planner.largest(ON, devices=8)
    careful = planner.largest(ON, devices=8, risk=0.1)
    assert free.choice.risk > 0.1 >= careful.choice.risk - 1e-9 and careful.value < free.value
    whole = planner.largest(ON, devices=8, program="megatron-flash")  # keeps whole logits
    assert whole.value < free.value


def test_a_host_holds_a_larger_batch_until_it_is_full() -> None:
    def at(memory: float) -> planner.Answer:
        host = step.Host(link=55e9, memory=memory, bandwidth=40e9)
        return planner.largest(replace(ON, host=host), devices=8)

    alone, hosted, tiny = planner.largest(ON, devices=8), at(256e9), at(1.0)
    assert hosted.value > alone.value == tiny.value and tiny.choice.offload == "none"
    lay, offload = hosted.choice.layout, OFFLOAD[hosted.choice.offload]
    assert offload.kept
    room, left = Room(ON.model, 4096), ON.device.room - 4e9

    def held(b: int) -> bool:
        more = replace(lay, micro_batch=b)
        there = room.on_host(more, (lay.zero, lay.shard), offload)
        return sum(room.parts(more, offload)) <= left and there <= 256e9

    assert held(lay.micro_batch) and not held(lay.micro_batch + 1)


def test_an_inverse_question_can_be_stopped() -> None:
    for asked in (
        lambda: planner.longest(ON, devices=64, sequences=256, tell=lambda _: False),
        lambda: planner.fewest(ON, sequences=512, within=1e-3, tell=lambda _: False),
    ):
        found = asked()
        assert not found.complete


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InputError, match="within = -1"):
        planner.fewest(ON, sequences=8, within=-1)
    with pytest.raises(InputError, match="what = 'tokens'"):
        planner.largest(ON, devices=8, what="tokens")
    with pytest.raises(InputError, match="reserve = "):
        planner.fewest(ON, sequences=8, reserve=-inf)


def test_a_host_is_among_what_would_have_to_change() -> None:
    host = step.Host(link=55e9, memory=256e9, bandwidth=40e9)
    on = step.machine("llama3-8b", CLUSTER, RATES, tokens=4096, host=host)
    lay = Layout(micro_batches=8, recompute="full")
    words = dict(planner.fitting(on, lay))
    assert "states on the host" in words and words["states on the host"].offload == "states"
    assert "states on the host" not in dict(planner.fitting(ON, lay))
