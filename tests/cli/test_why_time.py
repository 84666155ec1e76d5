"""mathlib why time: every part of a step as a line of arithmetic that comes to the printed time."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import why

LINES = (
    "llama3-8b --cluster p5.48xlarge --data 8 --zero 1 --micro-batches 16",
    "gpt3-175b --device a100-80gb --tensor 8 --pipeline 8 --data 16 --micro-batches 24 --chunks 2",
    "mixtral-8x7b --cluster dgx-h100 --data 16 --expert 8 --zero 3 --recompute full",
    "llama2-13b --cluster dgx-a100 --data 8 --zero 1 --offload both --micro-batches 4",
    "llama2-7b --cluster dgx-a100 --data 64 --zero 3 --program fsdp --train 2T",
)
SMALL = 1e-5  # what ten digits leave of a difference between two times that are nearly equal


@pytest.mark.parametrize("line", LINES)
def test_a_part_is_its_formula_and_all_parts_are_the_step(line, capsys):
    *parts, last = answered(f"why time {line}", capsys)["formulas"]
    step = answered(f"time {line}", capsys)
    if "--train" in line:
        assert last["value"] == step["also"]["whole run"]["value"]
        *parts, last = parts
    assert [one["what"].partition(".")[0] for one in parts] == list(step["parts"])
    for one in parts:
        wanted = step["parts"][one["what"].partition(".")[0]]
        assert one["value"] == wanted == pytest.approx(one["result"], rel=1e-9)
        known = {"__builtins__": {}, **why.FUNCTIONS}
        assert eval(one["numbers"].replace("^", "**"), known) == pytest.approx(wanted, rel=SMALL)
        assert set(why.LETTER.findall(one["formula"])) == set(one["letters"])
    assert last["value"] == step["total"] == pytest.approx(last["result"])
    assert last["formula"].count("+") == len(parts) - 1


def test_what_waits_on_the_host_has_its_own_formula(capsys):
    line = "why time llama2-13b --cluster dgx-a100 --data 8 --zero 1"
    here, there = (
        {
            one["what"].partition(".")[0]: one["formula"]
            for one in answered(each, capsys)["formulas"]
        }
        for each in (line, f"{line} --offload states")
    )
    assert here["optimizer"] == "30 * P / (S * W)"
    assert there["optimizer"] == "P / S * (e / W + 30 / W_h)"


def test_a_function_is_no_letter():
    assert why.LETTER.findall("m * max(t_x, sqrt(t_b ^ 2) - maximum)") == [
        *("m", "t_x", "t_b", "maximum")
    ]


def test_what_a_step_cannot_be_is_refused_here_too():
    with pytest.raises(InputError, match="--cluster: needed"):
        list(why.FORMULAS["time"](args("time gpt2")))
    with pytest.raises(InputError, match="program = 'nosuch'"):
        why.why_command(args("why time gpt2 --cluster dgx-a100 --program nosuch"))
