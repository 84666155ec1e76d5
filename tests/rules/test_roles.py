"""Every part that a formula returns has a look of its own, said in mathlib/show/roles.py."""

import inspect
import pkgutil
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest
from formulas import FUNCTIONS, LEFT_OUT, called

from mathlib import specs
from mathlib.compute import flops, papers, params
from mathlib.parts import Parts
from mathlib.plan import bill
from mathlib.show.roles import PART_ROLES, ROLES, looks

ROOMS = ("compute", "memory", "traffic", "schedule", "plan")
JOB = {"flop": 1e18, "achieved": 1e14, "devices": 8, "stages": 2, "micro_batches": 4}
LOSSES = {"gradient_bytes": 1e9, "bandwidth": 1e9, "time_between_failures": 1e6}
OWN = {  # formulas that test_refusals has no examples for
    "bill.device_time": lambda: bill.device_time(**JOB, **LOSSES, time_per_failure=60.0),
    "flops.forward": lambda: flops.forward("deepseek-v3"),
    "flops.backward": lambda: flops.backward("gpt2"),
    "flops.recomputation": lambda: flops.recomputation("gpt2", recompute="full"),
    "flops.training": lambda: flops.training("gpt2", recompute="full"),
    "flops.run": lambda: flops.run("gpt2", total_tokens=1e9),
    "papers.chinchilla": lambda: papers.chinchilla("gpt2"),
    "params.count": lambda: params.count("gpt2"),
    "params.active": lambda: params.active("deepseek-v3"),
    "params.lora": lambda: params.lora("gpt2", rank=8),
}


def sums() -> Iterator[tuple[str, typing.Any]]:
    """Every public function of the formulas that says it returns parts."""
    for room in ROOMS:
        folder = import_module(f"mathlib.{room}").__path__
        for one in pkgutil.iter_modules(folder, f"mathlib.{room}."):
            module = import_module(one.name)
            for name, function in inspect.getmembers(module, inspect.isfunction):
                which = f"{one.name.split('.')[-1]}.{name}"
                step = name[0] == "_" or which.startswith(tuple(LEFT_OUT))
                if not step and function.__module__ == one.name:
                    returned = str(typing.get_type_hints(function).get("return"))
                    if "mathlib.parts.Parts" in returned:
                        yield which, function


def parts_in(result: object) -> Iterator[Parts]:
    """The sums in a result, and the sums inside of those."""
    if isinstance(result, Parts):
        yield result
    if isinstance(result, dict | Parts):
        result = list(result.values())
    for inner in result if isinstance(result, list | tuple) else ():
        yield from parts_in(inner)


@cache
def returned() -> dict[str, list[Parts]]:
    """What the formulas return: their examples, and every kind of model's FLOP and parameters."""
    found = {}
    for which, _ in sums():
        assert which in FUNCTIONS or which in OWN, f"call {which} in OWN of this file"
        result = OWN[which]() if which in OWN else called(which)
        found[which] = list(parts_in(result))
    for model in specs.table("models"):
        for function in (flops.forward, params.count):
            found[f"{function.__name__} of {model}"] = list(parts_in(function(model)))
    return found


def unsaid(names: Iterator[str] | set[str]) -> set[str]:
    return set(names) - set(ROLES) - set(PART_ROLES)


def test_every_part_has_a_role():
    for which, found in returned().items():
        names = unsaid({name for parts in found for name in parts})
        assert not names, (
            f"{which} returns the parts {sorted(names)}, which have no colour: name each under a "
            "role in PARTS of mathlib/show/roles.py"
        )


def test_no_two_parts_of_a_picture_look_alike():
    for which, found in returned().items():
        for parts in found:
            assert len(set(looks(parts).values())) == len(parts), f"{which}: {list(parts)}"


def test_a_name_without_a_role_is_seen():
    assert unsaid({"weights", "weights, forward", "no such part"}) == {"no such part"}


@pytest.mark.parametrize("which", OWN)
def test_what_is_called_here_exists(which):
    assert which in dict(sums()), f"take {which} out of OWN of this file"
