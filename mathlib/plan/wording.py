"""A plan as people ask for it and hear of it: the command line and the page say it alike."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mathlib.checks import InputError
from mathlib.plan.adapted import RECIPE
from mathlib.plan.room import find_keeps

if TYPE_CHECKING:  # loaded when somebody searches
    from mathlib.plan.machine import Machine
    from mathlib.plan.planner import Answer, Ranking


def axes_of(text: str) -> dict[str, Any]:
    """tensor=4,recompute=none as values of axes, which the search knows; nothing: none."""
    pairs = [one.split("=") for one in text.split(",")] if text.strip() else []
    if not all(len(pair) == 2 for pair in pairs):
        raise InputError(f"{text!r}: expected such as tensor=4 or zero=3,recompute=none")
    return {
        name.strip().replace("-", "_"): int(value) if value.strip().isdigit() else value.strip()
        for name, value in pairs
    }


def of_peak(on: "Machine") -> str:
    """Of which peak MFU is a share, where that is not the usual one."""
    kind = on.rates.precision
    return "" if kind == "half" else f" of {kind} peak"


def at_risk(risk: float) -> str:
    """What counts as fitting."""
    return f"at most {risk:.0%} of runs predicted like it are too much"


def enough_devices(
    on: "Machine", found: "Ranking", devices: int, how: Mapping[str, Any]
) -> "Answer":
    """How many devices would do, where so many do not; none where the search was stopped. `how` is
    what `planner.search` was asked.
    """
    from mathlib.plan import planner

    if not found.complete:
        return planner.Answer("devices", 0, None, "", complete=False)
    return planner.fewest(on, least_devices=devices + 1, **{**how, "most": 1})


def would_do(more: "Answer") -> str:
    """The same in words."""
    if more:
        return f"{more.value:,} devices would do: {more.choice}"
    return "the search was stopped" if not more.complete else "no more devices would do"


def runs_of(on: "Machine") -> str:
    """Whose measured times an interval is of."""
    return "pretraining runs" if on.adapters else "runs"


def kept_beside(recipe: str | None = None) -> str:
    """By whose conventions the memory of adapters is counted."""
    return f"counted as PyTorch's own operations fill it: bf16, adapters as {recipe or RECIPE}"


def kept_words(program: str, recipe: str | None = None) -> str:
    """What of a step a program is taken to hold in memory."""
    keeps = find_keeps(program)
    gate = "a gate's matmul fused" if keeps.fused_gate else "a gate's matmul not fused"
    whose = "of the whole vocabulary " if keeps.whole_logits else ""
    loss = f"{keeps.logit:g} bytes a logit {whose}in the loss"
    return f"{recipe or keeps.recipe}, {gate}, {loss}"
