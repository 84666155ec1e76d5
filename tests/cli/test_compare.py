"""mathlib compare: every number of two answers, and those that differ side by side."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import compare
from mathlib.compute import params
from mathlib.memory import fit
from mathlib.specs import Layout, find_device


def differing(line, capsys):
    rows = answered(f"compare {line}", capsys)["rows"]
    return {row["name"]: (*row["values"], row["ratio"]) for row in rows}


def test_two_commands_differ_in_what_they_answer(capsys):
    one, two = (f"memory llama2-7b --zero {zero} --data 8" for zero in (1, 3))
    rows = differing(f"'{one}' '{two}'", capsys)
    totals = [fit.training("llama2-7b", Layout(data=8, zero=zero)).total for zero in (1, 3)]
    assert rows["total"] == (*totals, totals[1] / totals[0])
    assert rows["gathered layer"][0] is None and rows["gathered layer"][2] is None
    assert "activations" not in rows, "what is the same is left out"


def test_two_models_and_two_devices_are_compared_by_name(capsys):
    rows = differing("llama2-7b llama3-8b", capsys)
    totals = tuple(params.total(name) for name in ("llama2-7b", "llama3-8b"))
    assert rows["params, total"][:2] == totals
    assert rows["params, attention, key"][2] == 0.25 and "params, attention, value" in rows
    rows = differing("a100-80gb h100-sxm", capsys)
    peaks = tuple(find_device(name).peak["bf16"] for name in ("a100-80gb", "h100-sxm"))
    assert rows["peak bf16"][:2] == peaks


def test_text_shows_as_deep_as_asked(capsys):
    for depth, there in ((2, False), (3, True)):
        compare.compare_command(args(f"compare llama2-7b llama3-8b --depth {depth}"))
        assert ("params, attention, key" in capsys.readouterr().out) == there
    compare.compare_command(args("compare 'params gpt2' 'params gpt2'"))
    assert "no difference" in capsys.readouterr().out


@pytest.mark.parametrize("one", ["nosuch", "compare a b", "memory gpt2 --zero 1", "''"])
def test_what_has_no_answer_is_refused(one):
    with pytest.raises(InputError):
        compare.compare_command(args(f'compare "{one}" gpt2'))
