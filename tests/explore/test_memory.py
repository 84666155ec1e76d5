"""The memory chapter's experiments say what the library says, before any page."""

import pytest

from mathlib import specs
from mathlib.explore import memory
from mathlib.memory import fit

EXPLORED = {
    "model": "llama2-7b",
    "recipe": "mixed-adam",
    "zero": 1,
    "data": 8,
    "tensor": 1,
    "pipeline": 1,
    "micro_batch": 1,
    "tokens": 2048,
    "recompute": "none",
    "flash": True,
}


@pytest.mark.parametrize("device", memory.DEVICES)
def test_the_limit_is_what_the_device_reports(device):
    chip = specs.find_device(device)
    drawn = memory.explorer(device=device, **EXPLORED)
    layout = specs.Layout(data=8, zero=1)
    needed = fit.training("llama2-7b", layout, tokens=2048, attention="flash")
    assert fit.fits(needed, chip).text in drawn
    assert f"{device}: {memory._bytes(chip.room)}" in drawn
    listed = memory.recipes(millions=8000, gradients=True, device=device)
    assert f"within {memory._bytes(chip.room)}" in listed
