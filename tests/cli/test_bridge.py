"""Fields of a Megatron-Bridge recipe are the flags of Megatron-LM that they stand for."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError

FIELDS = (
    "model.tensor_model_parallel_size=4 model.sequence_parallel=true "
    "model.pipeline_model_parallel_size=2 ++model.virtual_pipeline_model_parallel_size=4 "
    "train.micro_batch_size=2 train.global_batch_size=128 model.seq_length=4096 "
    "model.recompute_granularity=full checkpoint.save=/tmp/x scheduler.lr_warmup_iters=2 "
    "comm_overlap.tp_comm_overlap=true ddp.overlap_param_gather=true optimizer.lr=1e-4"
)
TYPED = (
    "--tensor 4 --sequence-parallel --pipeline 2 --chunks 4 --data 8 --zero 1 --micro-batch 2 "
    "--micro-batches 8 --tokens 4k --recompute full"
)


def test_fields_are_the_layout_typed_on_top_of_what_recipes_have(capsys, tmp_path):
    typed = answered(f"time llama3-70b --cluster dgx-h100 {TYPED}", capsys)
    line = "time llama3-70b --cluster dgx-h100 --data 8"
    read = answered(f'{line} --bridge "{FIELDS}"', capsys)
    assert read["total"] == typed["total"]
    key = "memory of the fullest device"
    assert read["also"][key] == typed["also"][key]
    assert any("recipe" in words for words in read["flags"]["assumed"])
    assert "checkpoint.save" in read["flags"]["ignored"]
    path = tmp_path / "fields"
    path.write_text("# mine\n" + FIELDS.replace(" ", "\n"), "utf-8")
    assert answered(f"{line} --bridge {path}", capsys)["total"] == typed["total"]


def test_what_is_switched_off_is_off(capsys):
    typed = args(
        "memory llama3-8b --data 8 --bridge 'ddp.use_distributed_optimizer=false "
        "ddp.grad_reduce_in_fp32=false model.add_bias_linear=false model.num_moe_experts=null'"
    )
    assert typed.zero == 0 and typed.recipe == "mixed-adam" and typed.value("mlp_bias") is False


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("model.tensor_model_paralel_size=2", "did you mean --tensor-model-parallel-size"),
        ("model.seq_length=1 dataset.sequence_length=2", "sequence_length: 2 and 1 differ"),
        ("model.cpu_offloading=true", "--cpu-offloading: changes memory or time"),
        ("mixed_precision=bf16_with_fp8_current_scaling_mixed", "--fp8-format: changes memory"),
        ("no/such", "no/such: cannot be read .*; expected key=value, or a file of them"),
        ("a=1 b", "--bridge b: expected key=value"),
    ],
)
def test_what_is_misspelled_unmodelled_or_no_field_is_refused(fields, told):
    with pytest.raises(InputError, match=told):
        args(f"memory llama3-8b --bridge '{fields}'")


def test_two_sources_that_differ_are_refused():
    with pytest.raises(InputError, match="--megatron and --bridge differ"):
        args("memory llama3-8b --megatron '--seq-length 1' --bridge model.seq_length=2")
