"""Adapters on the command line: what is typed is the planner's, and what cannot be combined is
refused with the reason.
"""

import pytest
from command_line import answered, args, ended

from mathlib.checks import InputError
from mathlib.cli import adapting, plans, steps
from mathlib.cli.options import model_of
from mathlib.plan import planner, step
from mathlib.plan.adapted import PROGRAM, Adapters
from mathlib.specs import Layout

LINE = "llama3-8b --device a100-80gb --tokens 2k --lora 16"
CAREFUL = {"risk": 0.05, "program": PROGRAM}


def machine(line):
    typed = args(line)
    return steps.machine_of(typed, model_of(typed))


def test_matrices_have_the_names_of_checkpoints_and_of_people():
    assert adapting.matrices("q,v_proj, gate_proj,down") == ("query", "value", "gate", "down")
    for more, wanted in (
        ("", Adapters(16)),
        ("--on q,v", Adapters(16, ("query", "value"))),
        ("--qlora", Adapters(16, bits="4")),
        ("--qlora sharded", Adapters(16, bits="4 sharded")),
    ):
        assert machine(f"plan {LINE} {more}").adapters == wanted
    assert machine(f"plan {LINE}").rates == machine(f"plan {LINE} --program fsdp-eager").rates


def test_fit_and_plan_and_time_are_the_planner_s(capsys):
    on = machine(f"plan {LINE}")
    (found,) = answered(f"fit {LINE} --batch 8", capsys)["answers"]
    wanted = planner.fewest(on, sequences=8, **CAREFUL)
    assert (found["value"], found["memory"]) == (wanted.value, wanted.choice.memory)
    told = answered(f"plan {LINE} --devices 8 --batch 32", capsys)
    best = planner.search(on, devices=8, sequences=32, variants=False, **CAREFUL).choices[0]
    assert Layout(**told["layouts"][0]["layout"]) == best.layout
    assert "adapters of rank 16" in told["title"] and "adapters as mixed-adam" in told["keeps"]
    layout = "--data 8 --zero 3 --recompute full --micro-batches 4"
    timed = answered(f"time {LINE} {layout}", capsys)
    lay = Layout(data=8, zero=3, recompute="full", micro_batches=4)
    assert timed["total"] == step.step(on, lay).total
    held = answered(f"memory llama3-8b --lora 16 --tokens 2k {layout}", capsys)["total"]
    assert timed["also"]["memory of the fullest device"]["value"] == pytest.approx(held)


def test_seventy_billion_on_one_card(capsys):
    card = "--device a100-80gb --tokens 2k --batch 8 --lora 16"
    (half,), (packed,) = (
        answered(f"fit llama3-70b {card}{more}", capsys)["answers"] for more in ("", " --qlora")
    )
    assert (half["value"], packed["value"]) == (4, 1) and packed["risk"] <= 0.05
    small = "--device rtx-4090 --tokens 1k --batch 8 --lora 16"
    (whole,), (cut,) = (
        answered(f"fit llama3-70b {small} --qlora{more}", capsys)["answers"]
        for more in ("", " sharded")
    )
    assert whole["value"] == 0 and cut["value"] > 1, "what FSDP leaves whole fits no small card"


def test_words_say_whose_runs_an_interval_is_of(capsys):
    assert (
        "80% prediction interval, from pretraining runs"
        in ended(f"fit {LINE} --batch 8", capsys)[1]
    )
    out = ended(f"plan {LINE} --devices 8 --batch 8 --train 10M", capsys)[1]
    assert "80% prediction interval, from pretraining runs" in out and "a save" in out
    saved = [
        answered(f"plan {one} --devices 8 --batch 8 --train 10M", capsys)["also"]["a save takes"]
        for one in (LINE, LINE.replace(" --lora 16", ""))
    ]
    assert saved[0]["value"] < 0.01 * saved[1]["value"], "of adapters alone"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("--program megatron-core", "--program megatron-core: with --lora expected fsdp-eager"),
        ("--offload", "--offload: with --lora expected none"),
        ("--precision fp8", "with adapters expected 'half'"),
        ("--only tensor=2", "tensor = 2: with adapters expected 1"),
        ("--qlora half", "qlora = 'half'.*whole, sharded"),
        ("--on quary", "did you mean query"),
    ],
)
def test_what_cannot_be_combined_is_refused(more, why):
    line = f"plan {LINE.replace('a100-80gb', 'h100-sxm')} --devices 8 --batch 8 {more}"
    with pytest.raises(InputError, match=why):
        plans.plan_command(args(line))


@pytest.mark.parametrize("more", ["--qlora", "--on q,v"])
def test_without_a_rank_the_rest_has_no_effect(more):
    line = f"plan {LINE.replace(' --lora 16', '')} --devices 8 --batch 8 {more}"
    with pytest.raises(InputError, match="no effect"):
        plans.plan_command(args(line))
