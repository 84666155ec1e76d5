"""A search finds what trying every layout finds, says why not another, and can be stopped."""

from collections import Counter, defaultdict

import pytest

from mathlib.layout import Layout
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.room import Room, find_keeps
from mathlib.specs import find_cluster

CLUSTER, RATES = find_cluster("dgx-h100"), find_rates("h100-sxm")
ON = step.machine("llama3-8b", CLUSTER, RATES, tokens=4096)
MIXED = step.machine("mixtral-8x7b", CLUSTER, RATES, tokens=4096)


@pytest.mark.parametrize("on", [ON, MIXED], ids=["dense", "experts"])
def test_the_best_is_what_trying_all_finds(on: step.Machine) -> None:
    found = planner.search(on, devices=16, sequences=32, most=5)
    room, fit, full = Room(on.model, 4096), [], Counter()
    for way in planner.ways(on.model, tokens=4096, devices=16, sequences=32, node=8):
        lay = Layout(**way._asdict())
        if room.total(lay) <= on.device.room - 4e9:
            fit.append((step.step(on, lay).total, lay))
        else:
            parts = room.parts(lay)
            full[planner.HELD[parts.index(max(parts))]] += 1
    assert found and found.fitting == len(fit) < found.tried
    assert [one.seconds for one in found.choices] == pytest.approx(
        sorted(one for one, _ in fit)[:5]
    )
    assert found.full == full and full.total() == found.tried - found.fitting
    assert found.between.low < found.choices[0].seconds < found.between.high
    for axis, choices in found.best_with.items():
        own = defaultdict(list)
        for seconds, lay in fit:
            own[getattr(lay, axis)].append(seconds)
        assert {value: one.seconds for value, one in choices.items()} == pytest.approx(
            {value: min(times) for value, times in own.items()}
        ), axis


def test_reasons_add_up() -> None:
    found = planner.search(ON, devices=16, sequences=32, most=5)
    best = found.choices[0].layout
    other = found.best_with["pipeline"][4]
    assert "slower: " in other.reason and found.choices[0].reason == ""
    more = planner.why(ON, other.layout, best)
    assert more.total == pytest.approx(other.seconds - found.choices[0].seconds)
    assert str(found).startswith(f"{found.tried:,} layouts, {found.fitting:,} fit")


def test_too_small_a_device_says_what_fills_it() -> None:
    on = step.machine("llama3-405b", CLUSTER, RATES, tokens=8192)
    found = planner.search(on, devices=8, sequences=8)
    assert not found and found.fitting == 0
    assert "mostly too much: weights, gradients, optimizer states" in str(found)


def test_a_search_tells_how_far_it_is_and_can_be_stopped() -> None:
    heard: list[planner.Progress] = []
    every = planner.search(ON, devices=64, sequences=256, most=1, tell=heard.append)
    assert every.complete and every.tried > 10_000 and len(heard) == every.tried // 10_000
    assert 0 <= heard[0].share < 1 and 0 < heard[0].fitting <= heard[0].tried < every.tried
    assert heard[-1].seconds >= every.choices[0].seconds > 0
    some = planner.search(ON, devices=64, sequences=256, most=1, tell=lambda _: False)
    assert not some.complete and some.tried == heard[0].tried
    assert "the search was stopped" in str(some)


def test_ctrl_c_gives_the_best_so_far() -> None:
    def interrupt(_: planner.Progress) -> None:
        raise KeyboardInterrupt

    some = planner.search(ON, devices=64, sequences=256, tell=interrupt)
    assert some and not some.complete


def test_the_first_that_fits_is_enough_to_know_that_one_does() -> None:
    one = planner.search(ON, devices=16, sequences=32, first=True)
    assert one and one.tried < 20 and not one.complete


def test_a_layout_says_how_likely_it_runs_out_of_memory() -> None:
    found = planner.search(ON, devices=16, sequences=32, most=50)
    by_memory = sorted(found.choices, key=lambda one: one.memory)
    assert [one.risk for one in by_memory] == sorted(one.risk for one in by_memory)
    close = planner.search(ON, devices=16, sequences=32, memory=by_memory[0].memory, reserve=0)
    assert close.choices[0].risk > 0.4 and "that it is too much" in str(close.choices[0])


def test_a_careful_search_takes_no_layout_that_is_too_likely_to_die() -> None:
    asked = {"devices": 16, "sequences": 32, "program": "nanotron", "most": 1000}
    told = planner.search(ON, **asked)
    careful = planner.search(ON, **asked, risk=0.1)
    assert 0 < careful.fitting < told.fitting and careful.tried == told.tried
    assert max(one.risk for one in careful.choices) <= 0.1 + 1e-9
    safe = [one for one in told.choices if one.risk <= 0.1]
    assert [one.layout for one in careful.choices][: len(safe)] == [one.layout for one in safe]


def test_a_search_counts_what_the_program_keeps() -> None:
    asked = {"devices": 16, "sequences": 32, "most": 1}
    usual, own = (planner.search(ON, **asked, program=p) for p in ("deepspeed", "megatron-flash"))
    lay = own.choices[0].layout
    assert own.choices[0].memory == Room(ON.model, 4096, keeps=find_keeps("megatron-flash")).total(
        lay
    )
    assert usual.choices[0].memory == Room(ON.model, 4096).total(usual.choices[0].layout)
    named = planner.search(ON, **asked, program="deepspeed", recipe="mixed-adam")
    assert named.choices[0].memory == Room(ON.model, 4096, "mixed-adam").total(
        named.choices[0].layout
    )


HOST = step.Host(link=55e9, memory=256e9, bandwidth=40e9)
HOSTED = step.machine("llama3-8b", CLUSTER, RATES, tokens=4096, host=HOST)


def test_with_a_host_more_fits_and_what_fitted_is_no_slower() -> None:
    large = {"model": "llama3-70b", "cluster": CLUSTER, "rates": RATES, "tokens": 4096}
    alone = planner.search(step.machine(**large), devices=8, sequences=32)
    hosted = planner.search(step.machine(**large, host=HOST), devices=8, sequences=32)
    assert not alone and hosted
    assert {one.offload for one in hosted.choices} <= {"states", "both"}
    assert "offload states" in str(hosted) or "offload both" in str(hosted)
    small = planner.search(HOSTED, devices=16, sequences=32)
    plain = planner.search(ON, devices=16, sequences=32)
    assert small.tried == 4 * plain.tried
    assert small.choices[0].seconds <= plain.choices[0].seconds


def test_a_host_without_room_holds_nothing() -> None:
    tiny = step.Host(link=55e9, memory=1.0, bandwidth=40e9)
    on = step.machine("llama3-8b", CLUSTER, RATES, tokens=4096, host=tiny)
    found, plain = (planner.search(one, devices=16, sequences=32) for one in (on, ON))
    assert found.fitting == plain.fitting and found.full["the host's memory"] > 0
    assert {one.offload for one in found.choices} == {"none"}


def test_a_device_without_runs_is_told_with_a_wider_interval() -> None:
    wide = []
    for cluster in (CLUSTER, find_cluster("frontier")):
        rates = find_rates(cluster.device)
        on = step.machine("llama3.2-1b", cluster, rates, tokens=4096)
        found = planner.search(on, devices=8, sequences=8, most=1)
        assert found.between
        wide.append(found.between.high / found.choices[0].seconds)
    assert wide[1] > 1.05 * wide[0]
