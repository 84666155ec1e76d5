"""A script's flags for Hugging Face's Trainer count, and those that are not modelled end."""

import json

import pytest
from command_line import args

from mathlib.checks import InputError


def launched(flags, launcher="torchrun --nproc-per-node 8"):
    return args(f"memory llama2-7b --torchrun '{launcher} train.py {flags}'")


def test_batches_precision_and_checkpointing_are_the_options_typed():
    typed = launched(
        "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --bf16 True --lr 1e-5 "
        '--gradient_checkpointing --fsdp "full_shard auto_wrap" --optim adamw_torch --seed 1'
    )
    assert (typed.data, typed.micro_batch, typed.micro_batches, typed.zero) == (8, 4, 2, 3)
    assert (typed.recompute, typed.recipe, typed.program) == ("full", "adam-fp32", "fsdp-eager")
    assert typed.ignored == ["--lr", "--optim", "--seed"]


def test_what_is_auto_in_deepspeeds_file_the_script_says(tmp_path):
    keys = {"bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}
    keys |= {"gradient_accumulation_steps": "auto", "train_batch_size": "auto"}
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(keys | {"zero_optimization": {"stage": 3}}), "utf-8")
    flags = "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --bf16 True"
    typed = launched(f"{flags} --deepspeed {path}", "deepspeed --num_gpus 8")
    assert (typed.data, typed.micro_batch, typed.micro_batches) == (8, 4, 2)
    assert (typed.recipe, typed.program) == ("mixed-adam", "deepspeed")
    with pytest.raises(InputError, match="is auto there, .* say --micro-batch$"):
        launched(f"--bf16 --deepspeed {path}")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ('--fsdp "full_shard offload"', "--fsdp offload: changes memory or time"),
        ('--fsdp "some"', "--fsdp some: expected one of"),
        ("--optim adamw_bnb_8bit --use_peft", "--optim adamw_bnb_8bit, --use_peft: changes"),
        ("--per_device_train_batch_size x", "--per_device_train_batch_size x: expected a whole"),
    ],
)
def test_what_is_not_modelled_or_means_nothing_is_refused(flags, told):
    with pytest.raises(InputError, match=told):
        args(f"memory gpt2 --torchrun {json.dumps(f'torchrun train.py {flags}')}")
