"""torchtitan's TOML is the same layout typed; recomputing every second layer is not modelled."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError

LLAMA = """
[model]
name = "llama3"
flavor = "8B"
[optimizer]
name = "AdamW"
lr = 3e-4
[training]
local_batch_size = 2
seq_len = 4096
{training}
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
{parallelism}
[activation_checkpoint]
mode = "{mode}"
[compile]
enable = true
"""
LINE = "--torchrun 'torchrun --nproc-per-node 8 train.py'"


@pytest.fixture
def option(tmp_path):
    def written(mode="full", training="", parallelism="", text=LLAMA):
        path = tmp_path / "llama.toml"
        path.write_text(text.format(mode=mode, training=training, parallelism=parallelism), "utf-8")
        return f"--torchtitan {path}"

    return written


def test_a_file_is_the_layout_typed(option, capsys):
    read = answered(f"memory {option()} {LINE}", capsys)
    how = "--data 4 --tensor 2 --sequence-parallel --zero 3 --micro-batch 2 --recompute full"
    how += " --tokens 4k --recipe adam-fp32 --program fsdp"
    assert read["total"] == answered(f"memory llama3-8b {how}", capsys)["total"]
    timed = answered(f"time --cluster dgx-h100 {option()} {LINE}", capsys)
    typed = answered(f"time llama3-8b --cluster dgx-h100 {how}", capsys)
    assert timed["total"] == typed["total"] and "optimizer.lr" in timed["flags"]["ignored"]


@pytest.mark.parametrize(
    ("parallelism", "zero", "shard", "data"),
    [
        ("pipeline_parallel_degree = 2", 2, None, 2),
        ("pipeline_parallel_degree = 2\nfsdp_reshard_after_forward = 'always'", 3, None, 2),
        ("fsdp_reshard_after_forward = 'never'", 2, None, 4),
    ],
)
def test_weights_that_are_not_sharded_again_are_stage_2(parallelism, zero, shard, data, option):
    typed = args(f"memory {option(parallelism=parallelism)} {LINE}")
    assert (typed.zero, typed.shard, typed.data) == (zero, shard, data)


def test_groups_and_batches_follow(option):
    groups = LLAMA.replace("replicate_degree = 1", "replicate_degree = 2")
    groups = groups.replace("shard_degree = -1", "shard_degree = 4")
    typed = args(f"memory {option(text=groups, training='global_batch_size = 64')}")
    assert (typed.data, typed.shard, typed.micro_batches) == (8, 4, 4)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"mode": "selective"}, "selective_ac_option 2 .or say --recompute none or full.: chang"),
        ({"mode": "some"}, "activation_checkpoint.mode some: expected none"),
        ({"training": "enable_cpu_offload = true"}, "training.enable_cpu_offload True: changes"),
        ({"training": "seq_lenn = 1"}, "training.seq_lenn: torchtitan has none such; did you mean"),
        ({"parallelism": "enable_async_tensor_parallel = true"}, "async_tensor_parallel True: ch"),
        ({"training": "= 1"}, "expected a TOML file"),
        ({"parallelism": "tensor_parallel_degree = 2"}, "expected a TOML file"),
    ],
)
def test_what_is_not_modelled_misspelled_or_no_toml_is_refused(changed, told, option):
    with pytest.raises(InputError, match=told):
        args(f"memory {option(**changed)} {LINE}")


def test_recomputation_by_operation_is_the_selective_one_that_its_program_keeps(option):
    by_operation = 'selective"\nselective_ac_option = "op'
    typed = args(f"memory {option(mode=by_operation)} {LINE}")
    assert (typed.recompute, typed.program) == ("selective", "fsdp")


def test_another_model_than_the_files_is_a_conflict(option):
    with pytest.raises(InputError, match="model gpt2 and model.name .llama3-8b. differ"):
        args(f"memory gpt2 {option()}")
    args(f"memory llama3-8b {option(mode='selective')} --recompute none {LINE}")


def test_how_many_devices_there_are_has_to_be_said(option):
    with pytest.raises(InputError, match="shard_degree -1: takes all devices; say --data"):
        args(f"memory {option()}")
    assert args(f"memory {option()} --data 4").data == 4
