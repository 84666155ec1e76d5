"""accelerate's settings, of its launch line and of its YAML, are the same layout typed."""

import sys

import pytest
from command_line import answered, args

from mathlib.checks import InputError

FSDP = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_sharding_strategy: {strategy}
  fsdp_offload_params: {offload}
  fsdp_activation_checkpointing: true
"""
DEEPSPEED = """
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 8
deepspeed_config:
  zero_stage: 3
  offload_optimizer_device: {device}
  gradient_accumulation_steps: 4
"""


@pytest.fixture
def file(tmp_path):
    def written(text, **words):
        path = tmp_path / "settings.yaml"
        path.write_text(text.format(**words), "utf-8")
        return path

    return written


@pytest.mark.parametrize(
    ("strategy", "typed"),
    [
        ("FULL_SHARD", "--zero 3"),
        ("SHARD_GRAD_OP", "--zero 2"),
        ("NO_SHARD", ""),
        ("HYBRID_SHARD", "--zero 3 --shard 8"),
    ],
)
def test_a_strategy_of_fsdp_is_a_stage_of_zero(strategy, typed, file, capsys):
    path = file(FSDP, strategy=strategy, offload="false")
    read = answered(f"memory llama2-7b --accelerate {path}", capsys)
    how = "--data 16 --recompute full --recipe adam-fp32 --program fsdp-eager"
    assert read["total"] == answered(f"memory llama2-7b {how} {typed}", capsys)["total"]
    line = f"accelerate launch --config_file {path} train.py --lr 1"
    assert answered(f"memory llama2-7b --torchrun '{line}'", capsys)["total"] == read["total"]
    assert "fsdp_auto_wrap_policy" in read["flags"]["ignored"]


def test_a_line_goes_before_its_file_and_alone_is_enough(file, capsys):
    path = file(FSDP, strategy="FULL_SHARD", offload="false")
    line = f"accelerate launch --config_file {path} --num-processes 8 a.py"
    assert args(f"memory gpt2 --torchrun '{line}'").data == 8
    alone = "accelerate launch --use_deepspeed --zero_stage 1 --num_processes=4 a.py"
    typed = args(f"memory gpt2 --torchrun '{alone} --lr 1'")
    assert (typed.data, typed.zero, typed.value("program")) == (4, 1, "deepspeed")
    assert typed.recipe == "adam-fp32" and typed.ignored == ["use_deepspeed", "--lr"]


def test_deepspeeds_part_of_the_file_is_read(file, capsys):
    path = file(DEEPSPEED, device="cpu")
    read = answered(f"memory llama2-7b --accelerate {path}", capsys)
    how = "--data 8 --zero 3 --micro-batches 4 --offload states --recipe mixed-adam"
    typed = answered(f"memory llama2-7b {how} --program deepspeed", capsys)
    assert read["total"] == typed["total"]


def test_what_is_not_modelled_misspelled_or_no_yaml_is_refused(file, monkeypatch):
    def told(path):
        with pytest.raises(InputError) as refused:
            args(f"memory gpt2 --accelerate {path}")
        return str(refused.value)

    assert "fsdp_offload_params true: changes memory" in told(
        file(FSDP, strategy="FULL_SHARD", offload="true")
    )
    assert "offload_optimizer_device nvme: changes memory" in told(file(DEEPSPEED, device="nvme"))
    assert "fsdp-sharding-strategy some: expected one of" in told(
        file(FSDP, strategy="SOME", offload="false")
    )
    assert "did you mean num-processes" in told(file("num_proceses: 8"))
    assert "expected a YAML file" in told(file("a: [1"))
    assert "expected a YAML file of keys" in told(file("8"))
    assert "cannot be read" in told("no.yaml")
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "needs PyYAML (pip install pyyaml)" in told(file("num_processes: 8"))


def test_what_yaml_takes_for_false_is_no_and_processes_have_to_be_said(file):
    path = file("distributed_type: DEEPSPEED\nmixed_precision: no\nnum_processes: 2")
    assert args(f"memory gpt2 --accelerate {path}").recipe == "adam-fp32"
    with pytest.raises(InputError, match="accelerate launch: takes all devices that it finds"):
        args("memory gpt2 --torchrun 'accelerate launch --use_fsdp a.py'")
    hybrid = file("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD")
    with pytest.raises(InputError, match="shards in a node; say num_processes"):
        args(f"memory gpt2 --accelerate {hybrid}")
