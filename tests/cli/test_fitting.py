"""mathlib fit: the planner's inverse questions."""

import pytest
from command_line import answered, args, ended

from mathlib.checks import InputError
from mathlib.cli import fitting, steps
from mathlib.cli.options import model_of
from mathlib.plan import planner, step
from mathlib.specs import Layout

LINE = "fit llama2-7b --device a100-80gb"
RISK = {"risk": 0.05}  # unless told otherwise


def machine(line):
    typed = args(line)
    return steps.machine_of(typed, model_of(typed))


def test_the_fewest_devices_are_the_planners(capsys):
    (one,) = answered(f"{LINE} --batch 32 --within 20s", capsys)["answers"]
    wanted = planner.fewest(machine(LINE), sequences=32, within=20, **RISK)
    assert (one["what"], one["value"]) == ("devices", wanted.value)
    assert Layout(**one["layout"]) == wanted.choice.layout and one["beyond"] == wanted.beyond


def test_so_many_devices_hold_a_batch_and_a_context(capsys):
    batch, context = answered(f"{LINE} --devices 8", capsys)["answers"]
    on = machine(LINE)
    assert batch["value"] == planner.largest(on, devices=8, **RISK).value
    assert context["value"] == planner.longest(on, devices=8, **RISK).value
    (alone,) = answered(f"{LINE} --devices 8 --tokens 8k", capsys)["answers"]
    assert alone["what"] == "sequences" and alone["value"] < batch["value"]
    (alone,) = answered(f"{LINE} --devices 8 --batch 8", capsys)["answers"]
    assert alone["what"] == "tokens" and alone["value"] <= context["value"]


def test_what_is_looked_for_is_not_given():
    with pytest.raises(InputError, match="leave one out"):
        fitting.fit_command(args(f"{LINE} --devices 8 --tokens 4k --batch 8"))
    with pytest.raises(InputError, match="--within: no effect"):
        fitting.fit_command(args(f"{LINE} --devices 8 --within 8s --batch 8"))


def test_none_is_an_answer_too(capsys):
    answers = answered("fit llama3-70b --device a100-80gb --devices 1", capsys)["answers"]
    assert [one["value"] for one in answers] == [0, 0] and answers[0]["layout"] is None


def test_an_answer_counts_what_the_program_keeps_and_how_likely_it_is_too_much(capsys):
    line = f"{LINE} --devices 8 --tokens 4k"
    (usual,), (own,), (careful,) = (
        answered(f"{line}{more}", capsys)["answers"]
        for more in (" --risk 50%", " --program megatron-flash", " --risk 10%")
    )
    typed = args(f"{line} --program megatron-flash")
    on = steps.machine_of(typed, model_of(typed))
    assert own["value"] == planner.largest(on, devices=8, program="megatron-flash", **RISK).value
    assert usual["risk"] > 0.1 >= careful["risk"] - 1e-9 and careful["value"] < usual["value"]
    on = steps.machine_of(args(line), model_of(args(line)))
    between = step.interval(on, Layout(**usual["layout"]))
    assert (usual["between"]["low"], usual["between"]["high"]) == (between.low, between.high)
    fitting.fit_command(args(line))
    assert "80% prediction interval, from runs" in capsys.readouterr().out


def test_with_a_host_fewer_devices_are_enough(capsys):
    line = "fit llama3-70b --cluster dgx-a100 --tokens 4k --batch 16"
    (alone,), (hosted,) = (answered(f"{line}{o}", capsys)["answers"] for o in ("", " --offload"))
    assert hosted["value"] < alone["value"] and hosted["offload"] in ("states", "both")


def test_an_answer_runs_out_of_memory_in_one_of_twenty_runs_at_most(capsys):
    line = "fit llama3-405b --device h100-sxm"
    usual, any_ = (answered(f"{line}{o}", capsys)["answers"][0] for o in ("", " --risk 100%"))
    assert (usual["value"], any_["value"]) == (104, 96)
    assert usual["risk"] <= 0.05 < 0.5 < any_["risk"]
    fitting.fit_command(args(line))
    told = f"{usual['risk']:.0%} of runs predicted like it are too much for the memory"
    assert told in capsys.readouterr().out
    alone = answered("fit llama2-7b --device a100-80gb --devices 1", capsys)["answers"]
    assert (
        not alone[0]["value"] and ended("fit llama2-7b --device a100-80gb --devices 1", capsys)[0]
    )
