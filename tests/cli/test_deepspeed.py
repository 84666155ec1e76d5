"""DeepSpeed's file: what it leaves to its trainer is asked for, what is not modelled ends."""

import json

import pytest
from command_line import answered, args

from mathlib.checks import InputError


@pytest.fixture
def file(tmp_path):
    def written(**keys):
        path = tmp_path / "ds.json"
        path.write_text(json.dumps(keys), "utf-8")
        return f"--deepspeed {path}"

    return written


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"bf16": {"enabled": "auto"}}, "bf16.enabled is auto there, .* say --recipe"),
        ({"train_micro_batch_size_per_gpu": "auto"}, "is auto there, .* say --micro-batch$"),
        ({"gradient_accumulation_steps": "auto"}, "is auto there, .* say --micro-batches$"),
        ({"zero_optimization": {"stage": "auto"}}, "stage is auto there, .* say --zero"),
        (
            {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
            'offload_param.device "cpu": changes memory or time and is not counted',
        ),
        ({"optimizer": {"type": "Lion"}}, 'optimizer.type "Lion": changes memory or time'),
        (
            {"zero_optimization": {"zero_quantized_weights": True, "zero_hpz_partition_size": 8}},
            "zero_quantized_weights true, zero_optimization.zero_hpz_partition_size 8: changes",
        ),
        ({"zero_optimisation": {"stage": 3}}, "zero_optimisation.stage: DeepSpeed has none such"),
        ({"zero_optimization": {"stag": 3}}, "did you mean zero_optimization.stage"),
    ],
)
def test_what_is_auto_unmodelled_or_misspelled_is_refused_by_its_key(keys, told, file):
    for command in ("memory gpt2", "time gpt2 --cluster dgx-a100"):
        with pytest.raises(InputError, match=told):
            args(f"{command} --data 8 {file(**keys)}")


def test_what_is_auto_may_be_typed(file):
    keys = {"bf16": {"enabled": "auto"}, "train_batch_size": "auto"}
    keys |= {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    keys |= {"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}
    typed = args(
        f"memory gpt2 --data 8 --recipe mixed-adam --micro-batch 2 --micro-batches 3 {file(**keys)}"
    )
    assert typed.recipe == "mixed-adam" and (typed.micro_batch, typed.micro_batches) == (2, 3)
    args(f"params gpt2 {file(**keys)}")  # which asks for nothing of it


def test_of_the_three_numbers_of_a_batch_the_one_that_is_missing_follows(file):
    def read(options, **keys):
        typed = args(f"memory gpt2 {options} {file(train_batch_size=64, **keys)}")
        return typed.data, typed.micro_batch, typed.micro_batches

    accumulated = {"gradient_accumulation_steps": 4}
    assert read("", **accumulated) == (16, 1, 4)
    assert read("", **accumulated, train_micro_batch_size_per_gpu=2) == (8, 2, 4)
    assert read("--data 8", train_micro_batch_size_per_gpu=2) == (8, 2, 4)
    assert read("--data 8", **accumulated) == (8, 2, 4)
    launched = "--torchrun 'deepspeed --num_gpus 8 a.py'"
    assert read(launched, **accumulated) == (8, 2, 4)
    with pytest.raises(InputError, match="train_batch_size"):
        read("--data 8", **accumulated, train_micro_batch_size_per_gpu=4)


def test_a_recipe_may_be_finer_than_the_file_but_not_of_other_weights(file):
    half = file(bf16={"enabled": True})
    assert args(f"memory gpt2 --recipe mixed-adam-8bit {half}").recipe == "mixed-adam-8bit"
    with pytest.raises(InputError, match="--recipe .adam-fp32. and bf16.enabled"):
        args(f"memory gpt2 --recipe adam-fp32 {half}")
    with pytest.raises(InputError, match="neither bf16 nor fp16"):
        args(f"memory gpt2 --recipe mixed-adam {file(train_batch_size=1)}")


def test_the_file_that_a_script_names_is_read(file, capsys):
    option, path = file(bf16={"enabled": True}, zero_optimization={"stage": 3}).split()
    line = f"deepspeed --num_gpus 8 a.py {option} {path}"
    there = answered(f"memory llama2-7b --torchrun '{line}'", capsys)
    typed = answered(f"memory llama2-7b --data 8 {option} {path}", capsys)
    assert there["total"] == typed["total"] and there["also"]["devices"]["value"] == 8
    with pytest.raises(InputError, match="--deepspeed no.json: cannot be read"):
        args("memory gpt2 --torchrun 'torchrun a.py --deepspeed no.json'")
