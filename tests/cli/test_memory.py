"""mathlib memory: the library's bytes, and whether they fit where a device is named."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import answered, args

from mathlib import specs
from mathlib.checks import InputError
from mathlib.cli import memory
from mathlib.explore.memory import explorer
from mathlib.memory import adapters, fit, states
from mathlib.plan import calibration
from mathlib.show import says
from mathlib.units import show

ROOT = Path(__file__).resolve().parents[2]


def test_a_device_adds_its_room_what_is_left_and_a_verdict(capsys):
    bare = answered("memory gpt2 --micro-batch 2", capsys)
    total = fit.training("gpt2", specs.Layout(micro_batch=2)).total
    assert bare["total"] == total and bare["verdict"] is None and "room" not in bare["also"]
    for room, size in (("--memory 24GB", 24e9), ("--device h100-sxm", None)):
        data = answered(f"memory gpt2 --micro-batch 2 {room}", capsys)
        size = size or specs.find_device("h100-sxm").room
        assert data["also"]["room"]["value"] == size and data["verdict"]
        assert data["also"]["left"]["value"] == size - 4e9 - total


def test_fits_leaves_what_programs_need_and_says_so(capsys):
    line = "memory llama3-8b --zero 3 --data 4 --tokens 8k --device a100-80gb --recipe adam-fp32"
    for more, fits in (("", False), (" --reserve 0GB", True)):
        assert answered(f"{line}{more}", capsys)["verdict"].startswith("fits") == fits, more
    assert "less 4 GB left for the rest" in answered(line, capsys)["verdict"]
    kept = answered(f"{line} --reserve 1GB", capsys)["also"]
    assert kept["left free for context, buffers and fragments"]["value"] == 1e9


def test_the_chance_of_running_out_stands_beside_the_verdict(capsys):
    """For the program it counts; for PyTorch's own operations by runs of all programs."""
    base = "memory llama2-7b --zero 3 --data 8 --micro-batch 2 --device a100-80gb"
    left = specs.find_device("a100-80gb").room - 4e9
    for more, program in (("", None), (" --program fsdp", "fsdp"), (" --program nanotron",) * 2):
        program = program and program.split()[-1]
        data = answered(f"{base}{more}", capsys)
        chance = calibration.out_of_memory(needed=data["total"], memory=left, program=program)
        assert data["also"]["chance that it is too much"] == {"value": chance, "unit": "ratio"}
        assert f"; {chance:.0%} of runs predicted like it are too much" in data["verdict"]
    row = specs.table("calibrations")["needs"]["all"]
    even = left / math.exp(row["typical"])  # as much more as runs typically needed
    assert calibration.out_of_memory(needed=even, memory=left, program=None) == pytest.approx(0.5)


def test_one_layout_has_one_answer_in_readme_explorer_and_command_line(capsys):
    line = "memory llama2-7b --zero 3 --data 8"
    data = answered(line, capsys)
    assert data["total"] == fit.training("llama2-7b", specs.Layout(data=8, zero=3)).total
    shown = _explored("llama2-7b", 4096, zero=3, data=8)
    assert says.size(data["total"]) in shown
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"mathlib {line}" in readme and f"{data['total'] / 1e9:.1f} GB" in readme


def test_a_pipeline_is_full_unless_somebody_says_otherwise(capsys):
    line = "memory gpt3-175b --tensor 8 --pipeline 16"
    data = answered(line, capsys)
    assert data["also"]["micro-batches"]["value"] == 16
    assert says.size(data["total"]) in _explored("gpt3-175b", 2048, tensor=8, pipeline=16)
    assert data["total"] == answered(f"{line} --micro-batches 64", capsys)["total"]


def _explored(model, tokens, **degrees):
    usual = dict.fromkeys(("data", "tensor", "pipeline", "micro_batch"), 1)
    usual |= {"device": "a100-80gb", "recipe": "mixed-adam", "zero": 0, "recompute": "none"}
    flash = specs.find_model(model).attention == "flash"
    return explorer(model=model, tokens=tokens, **usual | degrees, flash=flash)


def test_where_it_does_not_fit_each_way_out_comes_with_what_it_needs(capsys):
    data = answered("memory llama2-7b --data 8 --device a100-80gb", capsys)
    assert data["verdict"].startswith("does not fit")
    needed = fit.training("llama2-7b", specs.Layout(data=8, zero=1)).total
    assert f"with --zero 1: {needed / 1e9:.4g} GB, fits" in data["ways"]
    assert any("--recompute full" in way and "still too much" in way for way in data["ways"])
    halves = answered("memory gpt2 --micro-batch 4 --tensor 2 --data 2 --memory 1GB", capsys)
    assert any("--micro-batch 2 --micro-batches 2" in way for way in halves["ways"])
    assert any("--sequence-parallel" in way for way in halves["ways"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--device a100-80gb --memory 40GB", "--device a100-80gb: has a memory of its own"),
        ("--device A100", "did you mean a100-40gb or a100-80gb"),
        ("--recipe adafactor", "depend on the shape of each matrix"),
        ("--recipe adamw", "mixed-adam is the usual; `mathlib recipes` lists all"),
        ("--pipeline 33", "more than layers = 32, so that a stage would be empty$"),
        ("--zero 1", "no effect on one replica"),
        ("--sequence-parallel", "no effect without tensor parallelism"),
        ("--expert-tensor 1", "no effect on a model without experts"),
        ("--data 4 --shard 2", "no effect without ZeRO"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(options, told):
    with pytest.raises(InputError, match=told):
        memory.memory_command(args(f"memory llama2-7b {options}"))


def test_the_ends_may_have_a_layer_fewer(capsys):
    """Llama 3 405B: 8 of its 126 layers on each of 14 stages, 7 on the first and the last."""
    line = "memory llama3-405b --tensor 8 --pipeline 16 --data 64 --sequence-parallel --zero 1"
    lay = specs.Layout(data=64, tensor=8, pipeline=16, micro_batches=16, zero=1)
    lay = replace(lay, sequence_parallel=True)
    sizes = [answered(f"{line} --pipeline-stage {i}", capsys)["total"] for i in range(16)]
    assert sizes == [fit.training("llama3-405b", lay, stage=i).total for i in range(16)]
    assert answered(line, capsys)["total"] == max(sizes) == sizes[1]
    held = [states.stage_parameters("llama3-405b", lay, i).total for i in range(16)]
    even = states.stage_parameters("llama3-405b", replace(lay, pipeline=14), 1).total
    assert held[1] * 9 == even * 8, "8 layers where 14 stages have 9"
    why = answered(line.replace("memory", "why memory"), capsys)
    assert why["formulas"][-1]["value"] == max(sizes)


def test_whose_conventions_were_counted_is_said_in_memory_and_in_time(capsys):
    """For one layout the two differ by what is counted: 73.9 GB and 66.5."""
    lay = "--data 4 --tensor 2 --zero 1 --micro-batch 4 --micro-batches 4 --sequence-parallel"
    recipe = "mixed-adam-fp32-gradients"
    mine = answered(f"memory llama2-7b {lay} --recipe {recipe}", capsys)
    timed = answered(f"time llama2-7b --cluster dgx-a100 {lay}", capsys)
    theirs = timed["also"]["memory of the fullest device"]["value"]
    assert f"{mine['total'] / 1e9:.1f}" == "73.9" and f"{theirs / 1e9:.1f}" == "66.5"
    assert f"{recipe}, a gate's matmul not fused" in mine["keeps"] and "plan" in mine["keeps"]
    assert f"{recipe}, a gate's matmul fused" in timed["keeps"] and "memory" in timed["keeps"]
    assert "gate" not in answered("memory gpt2", capsys)["keeps"]
    memory.memory_command(args("memory llama2-7b"))
    assert mine["keeps"].partition(":")[0] in capsys.readouterr().out


def test_adapters_are_counted_by_the_formula_and_what_is_not_counted_is_refused(capsys):
    line = "memory llama3-8b --lora 16 --tokens 2048 --recompute full"
    how = {"rank": 16, "tokens": 2048, "recompute": "full"}
    for more, asked in (
        ("", {}),
        (" --qlora --on query,value", {"quantised": True, "targets": ("query", "value")}),
        (" --dropout --micro-batch 4", {"dropout": True, "micro_batch": 4}),
    ):
        told = adapters.training("llama3-8b", **how, **asked).total
        assert answered(line + more, capsys)["total"] == told
    small = answered(f"{line} --memory 20GB", capsys)
    packed = adapters.training("llama3-8b", **how, quantised=True).total
    assert small["verdict"].startswith("does not fit")
    assert f"with --qlora: {show(packed, 'byte')}, fits" in small["ways"]
    over = {"devices": 8, **how}
    for more, asked in (
        (" --zero 2", {"zero": 2}),
        (" --zero 3 --qlora --on q_proj,v", {"targets": ("query", "value"), "whole_bits": True}),
        (" --zero 3 --qlora sharded", {}),
    ):
        asked |= {"quantised": True} if "qlora" in more else {}
        told = adapters.sharded("llama3-8b", **over, **asked).total
        assert answered(f"{line} --data 8{more}", capsys)["total"] == told
    for more, why in (
        ("--tensor 2", "in ZeRO's shards alone"),
        ("--qlora quarter", "whole, sharded"),
        ("--attention standard", "expected flash"),
        ("--program megatron", "PyTorch alone"),
        ("--on quary", "did you mean query"),
    ):
        with pytest.raises(InputError, match=why):
            memory.memory_command(args(f"{line} {more}"))
