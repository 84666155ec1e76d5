"""mathlib roles: the formula's phases, the fullest first, and whether it fits."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import preference as command
from mathlib.memory import preference


def test_the_fullest_phase_is_told_and_all_others_beside_it(capsys):
    line = "roles llama3-8b --method ppo --tokens 2048 --sequences 64"
    found = preference.phases("llama3-8b", method="ppo", devices=8, tokens=2048, sequences=64)
    data = answered(line, capsys)
    assert data["total"] == found["writing"].total and "while writing" in data["title"]
    for name, phase in found.items():
        assert data["also"][name]["value"] == phase.total
    fits = answered(f"{line} --device a100-80gb", capsys)
    assert fits["verdict"].startswith("fits") and "of pretraining runs" in fits["verdict"]
    assert answered(f"{line} --memory 60GB", capsys)["verdict"].startswith("does not fit")


def test_options_are_those_of_the_formula_and_what_changes_nothing_is_refused(capsys):
    line = "roles llama3-70b --method grpo --devices 16 --write-tensor 8 --offload --tokens 4096"
    how = {"devices": 16, "tensor": 8, "offload": True, "tokens": 4096}
    told = preference.phases("llama3-70b", method="grpo", **how)
    assert answered(line, capsys)["total"] == max(phase.total for phase in told.values())
    for more, why in (
        ("--method dpo --sequences 4", "no effect on dpo"),
        ("--method dpo --scorer llama3-8b", "neither critic"),
        ("--scorer lama3-8b", "did you mean llama3-8b"),
        ("--method rlhf", "expected one of dpo, grpo, ppo"),
    ):
        with pytest.raises(InputError, match=why):
            command.roles_command(args(f"roles llama3-8b {more}"))
