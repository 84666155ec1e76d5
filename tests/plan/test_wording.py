"""What is typed becomes values of axes, and what a search found becomes words."""

import pytest

from mathlib.checks import InputError
from mathlib.plan import planner, wording
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import machine
from mathlib.specs import find_cluster, table

NODES = find_cluster("dgx-h100")


def on(precision="half", model="llama3-70b"):
    return machine(model, NODES, find_rates(NODES.device, precision=precision), tokens=4096)


def test_axes_are_read_as_they_are_typed():
    assert wording.axes_of("tensor=4, micro-batch=2,recompute=none") == {
        **{"tensor": 4, "micro_batch": 2, "recompute": "none"}
    }
    assert wording.axes_of("") == wording.axes_of(" ") == {}
    for wrong in ("tensor", "tensor=4=2", "tensor=4,", ","):
        with pytest.raises(InputError, match="expected such as tensor=4"):
            wording.axes_of(wrong)


def test_the_peak_is_named_where_it_is_not_that_of_16_bits():
    assert [wording.of_peak(on(kind)) for kind in ("half", "fp8")] == ["", " of fp8 peak"]


def test_how_many_devices_would_do_is_the_least_that_fits():
    here, how = on(), {"sequences": 64, "risk": 0.05}
    found = planner.search(here, devices=8, **how)
    assert not found
    more = wording.enough_devices(here, found, 8, how)
    assert more.value > 8 and planner.search(here, devices=more.value, **how)
    between = [n for n in planner._sizes(8, more.value - 1) if n > 8]
    assert between and not any(planner.search(here, devices=n, **how) for n in between)
    last, next_one = (
        wording.enough_devices(here, found, n, how).value for n in (more.value - 1, more.value)
    )
    assert last == more.value < next_one
    assert wording.would_do(more) == f"{more.value} devices would do: {more.choice}"
    stopped = planner.search(here, devices=64, first=True, **how)
    assert (
        wording.would_do(wording.enough_devices(here, stopped, 64, how)) == "the search was stopped"
    )
    none = wording.enough_devices(here, found, 2**14, how)
    assert wording.would_do(none) == "no more devices would do"


def test_what_a_program_keeps_is_said_in_words():
    assert wording.kept_words("fsdp").startswith(
        "adam-fp32, a gate's matmul fused, 12 bytes a logit"
    )
    assert "14 bytes a logit of the whole vocabulary" in wording.kept_words("megatron-flash")
    assert wording.kept_words("fsdp", "sgd").startswith("sgd, ")
    assert len({wording.kept_words(program) for program in table("calibrations")["programs"]}) > 1
