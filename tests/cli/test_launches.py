"""Published launch lines mean here what they mean there; what has no part or is unknown is named.

Megatron-LM: https://github.com/NVIDIA/Megatron-LM/tree/core_v0.15.0/examples, gpt3 and mixtral.
DeepSpeed's JSON: https://github.com/huggingface/transformers, tests/deepspeed/ds_config_zero3.json.
"""

import json
import random
import shlex

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import options, steps
from mathlib.compute import params
from mathlib.explore.plan import MODELS as PLANNED
from mathlib.layout import spreads, tensor_degree
from mathlib.plan import step
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import host_of, machine
from mathlib.plan.work import OFFLOAD
from mathlib.show.launch_flags import launch_line
from mathlib.specs import Layout, find_cluster, find_model, table

GPT3 = (
    "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 "
    "--max-position-embeddings 2048 --attention-backend auto --micro-batch-size 1 "
    "--global-batch-size 1536 --rampup-batch-size 16 16 5859375 --adam-beta1 0.9 --fp16 "
    "--lr 6.0e-5 --split 949,50,1 --tensor-model-parallel-size 8 "
    "--pipeline-model-parallel-size 16"
)
MIXTRAL = (
    "--use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 "
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm "
    "--position-embedding-type rope --swiglu --untie-embeddings-and-output-weights "
    "--group-query-attention --num-query-groups 8 --num-experts 8 --moe-router-topk 2 "
    "--micro-batch-size 1 --global-batch-size 256 --bf16 --tensor-model-parallel-size 1 "
    "--pipeline-model-parallel-size 4 --expert-model-parallel-size 8 --use-distributed-optimizer "
    "--sequence-parallel --vocab-size 32000"
)
ZERO3 = {
    "fp16": {"enabled": True, "loss_scale": 0},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "stage3_max_live_parameters": 1e9,
    },
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.8, 0.999]}},
    "steps_per_print": 2000,
}


def launched(line):
    typed = args(f"memory {line}")
    model = options.model_of(typed)
    return typed, model, options.layout_of(typed, model)


def test_megatrons_gpt3_is_gpt3():
    line = f'--megatron "{GPT3}" --torchrun "torchrun --nproc_per_node 8 --nnodes 192 pretrain.py"'
    typed, model, lay = launched(line)
    assert params.total(model) == params.total("gpt3-175b") and model.attention == "flash"
    assert lay == Layout(data=12, tensor=8, pipeline=16, micro_batches=128)
    assert typed.ignored == [
        *("--rampup-batch-size", "--adam-beta1", "--lr", "--split"),
    ]
    assert typed.value("recipe") == "mixed-adam" and typed.value("program") == "megatron-core"
    assert typed.unknown == []


def test_a_mixture_is_read_from_its_own_flags():
    """In one line as it is launched: torchrun's flags, the script, the script's flags."""
    line = f"torchrun --nproc_per_node=8 --nnodes=4 --node_rank 0 pretrain_gpt.py {MIXTRAL}"
    typed, model, lay = launched(f'--torchrun "{line}"')
    wanted = find_model("mixtral-8x7b")
    assert params.total(model) == params.total(wanted)
    assert params.active(model).total == params.active(wanted).total and not model.dropout
    assert (lay.data, lay.expert, lay.zero, lay.micro_batches) == (8, 8, 1, 32)
    assert typed.value("recipe") == "mixed-adam-fp32-gradients" and typed.value("tokens") == 4096


def test_deepspeeds_json_is_the_same_layout_typed(tmp_path, capsys):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(ZERO3 | {"nonsense": 1, "train_batch_size": "auto"}), "utf-8")
    data = answered(f"memory llama2-7b --data 8 --deepspeed {path}", capsys)
    program = "--program deepspeed --recipe mixed-adam --offload states"
    typed = answered(f"memory llama2-7b --data 8 --zero 3 {program}", capsys)
    assert data["total"] == typed["total"] and "deepspeed" in data["keeps"]
    flags = data["flags"]
    assert flags["read"] == {
        "zero": "zero_optimization.stage",
        "offload": "zero_optimization.offload_optimizer.device",
        "recipe": "fp16.enabled",
    }
    assert flags["unknown"] == ["nonsense"]
    assert "train_batch_size (auto)" in flags["ignored"]


def test_states_that_a_launch_keeps_on_the_host_are_timed_there(tmp_path, capsys):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(ZERO3), "utf-8")
    base = "time llama2-7b --cluster dgx-a100 --data 8 --program deepspeed"
    typed = answered(f"{base} --zero 3 --offload states", capsys)
    read = answered(f"{base} --deepspeed {path}", capsys)
    assert read["total"] == typed["total"]
    assert read["flags"]["read"]["offload"] == "zero_optimization.offload_optimizer.device"
    flags = '--megatron "--use-distributed-optimizer --optimizer-cpu-offload"'
    of_megatron = answered(f"{base} {flags}", capsys)
    assert of_megatron["total"] == answered(f"{base} --zero 1 --offload states", capsys)["total"]
    with pytest.raises(InputError, match="--optimizer-cpu-offload: of AWS p5.48xlarge's host nob"):
        steps.time_command(args(f"time llama2-7b --cluster p5.48xlarge --data 8 {flags}"))


def test_without_half_precision_deepspeed_trains_in_fp32(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"train_batch_size": 64, "gradient_accumulation_steps": 4}), "utf-8")
    typed, _, lay = launched(f"gpt2 --deepspeed {path}")
    assert typed.value("recipe") == "adam-fp32" and (lay.data, lay.micro_batches) == (16, 4)


def refused_with(line: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        args(f"memory gpt2 {line}")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            '--tensor 2 --megatron "--tensor-model-parallel-size 4"',
            "--tensor (2) and --tensor-model-parallel-size (4) differ; leave one out",
        ),
        ('--data 4 --torchrun "torchrun --nproc-per-node 8 a.py"', "--data (4) and"),
        ('--megatron "--recompute-activations --recompute-granularity full"', "(full) differ, for"),
        ('--megatron "--seq-length 512" --tokens 256', "--tokens (256) and --seq-length (512)"),
        ('--megatron "--sequence-paralel"', "did you mean --sequence-parallel?"),
        ("--torchrun ''", "--torchrun '': expected a line"),
        ("--megatron ''", "--megatron '': expected a line"),
        ('--megatron "--data-path \'a"', "--megatron: no closing quotation"),
    ],
)
def test_two_sources_that_differ_and_lines_that_say_nothing_are_refused(line, told):
    refused_with(line, told)


def test_two_sources_may_say_the_same():
    typed, _, lay = launched('gpt2 --tensor 2 --megatron "--tensor-model-parallel-size 2 --foo"')
    assert lay.tensor == 2 and typed.unknown == ["--foo"] and typed.ignored == []


def test_virtual_stages_and_padded_rows_follow_from_two_flags():
    line = (
        "--num-layers 16 --hidden-size 512 --num-attention-heads 8 --vocab-size 50257 "
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
        "--num-layers-per-virtual-pipeline-stage 2 --make-vocab-size-divisible-by 128"
    )
    _, model, lay = launched(f'--megatron "{line}"')
    assert (lay.chunks, lay.micro_batches) == (2, 4) and model.padded_vocab == 50432


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('--megatron "--num-layers x"', "--num-layers x: expected a whole number"),
        ('--megatron "tensor 8"', "--megatron tensor: expected flags"),
        ('--megatron "--recompute-granularity some"', "--recompute-granularity some: expected"),
        ('--torchrun "torchrun --nnodes 1:4 a.py"', "--nnodes 1:4: expected a whole number"),
        ('--tensor 3 --torchrun "torchrun --nproc-per-node 8 a.py"', "no multiple of 3"),
        ('--megatron "--global-batch-size 7 --micro-batch-size 2"', "7 is no multiple of 2"),
        ("--deepspeed no.json", "--deepspeed no.json: cannot be read"),
    ],
)
def test_a_flag_that_says_nothing_is_refused_by_its_own_name(line, told):
    refused_with(line, told)


def test_the_lists_of_flags_say_their_version():
    for program in table("launches").values():
        assert program["version"] and program["source"].startswith("https://")
        assert len(set(program["flags"])) == len(program["flags"]) > 20 and program["title"]


def test_a_launch_line_is_enough_to_look_for_a_better_layout(capsys):
    line = (
        "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 512 "
        "--tensor-model-parallel-size 2 --global-batch-size 8 --foo"
    )
    launch = f"torchrun --nproc-per-node 4 pretrain_gpt.py {line}"
    data = answered(f"plan --cluster dgx-a100 --torchrun '{launch}'", capsys)
    best = Layout(**data["layouts"][0]["layout"])
    assert best.world == 4 and best.sequences == 8
    assert data["flags"]["read"]["devices"] == "--nnodes x --nproc-per-node"
    assert "--tensor-model-parallel-size" in data["flags"]["ignored"]
    assert data["flags"]["unknown"] == ["--foo"]


def test_where_a_command_has_no_layout_the_shape_is_read(capsys):
    data = answered(f'params --megatron "{GPT3}"', capsys)
    assert data["total"] == params.total("gpt3-175b")
    assert "--global-batch-size" in data["flags"]["ignored"]


def test_what_has_no_effect_in_this_layout_is_ignored_by_name():
    line = '--torchrun "torchrun --nproc-per-node 32 pretrain_gpt.py ' + MIXTRAL + '"'
    typed, _, _ = launched(line)
    assert "--sequence-parallel" in typed.ignored and "sequence_parallel" not in typed.read


MODELS = (*PLANNED, "deepseek-v3", "qwen3-8b", "qwen3-30b-a3b")


def layouts(draw, model, tokens):
    """One that divides: every axis, stage of ZeRO and kind of recomputation."""
    split = draw.choice([t for t in (1, 2, 4, 8) if divides_all(model, t)])
    stages = draw.choice([p for p in (1, 2, 4, 5, 8) if p <= model.layers])
    among = draw.choice([c for c in (1, 2, 4) if tokens % (2 * c) == 0])
    data, zero = draw.choice([1, 2, 3, 8]), draw.choice([0, 1, 2, 3])
    near = [v for v in (1, 2, 3, 4) if spreads(model.layers, stages, v) and (stages > 1 or v == 1)]
    ranks = data * among * split
    dealt = [e for e in (1, 2, 4, 8) if ranks % e == 0]
    expert = draw.choice(
        [e for e in dealt if model.experts and model.experts.routed % e == 0] or [1]
    )
    return Layout(
        data=data,
        tensor=split,
        pipeline=stages,
        chunks=draw.choice(near),
        context=among,
        expert=expert,
        expert_tensor=1 if expert > 1 else split,
        zero=zero if data * among > 1 else 0,
        shard=data if zero and among > 1 and draw.random() < 0.3 else 0,
        sequence_parallel=split > 1,
        micro_batch=draw.choice([1, 2, 4]),
        micro_batches=stages * draw.choice([1, 2]),
        recompute=draw.choice(["none", "selective", "full"]),
    )


def divides_all(model, tensor):
    try:
        return bool(tensor_degree(model, tensor))
    except InputError:
        return False


def test_a_line_that_is_printed_is_read_as_the_layout_it_was_printed_for(capsys):
    """Of 300 layouts: bytes and seconds of `time` and `memory` are those that were planned."""
    draw = random.Random(1)
    for i in range(300):
        model = find_model(MODELS[i % len(MODELS)])
        nodes, tokens = find_cluster("dgx-a100"), min(model.context, draw.choice([1024, 2048]))
        lay = layouts(draw, model, tokens)
        recipe = draw.choice(["mixed-adam", "mixed-adam-fp32-gradients"])
        offload = draw.choice(["none", "none", "states"])
        on = machine(model, nodes, find_rates(nodes.device), tokens=tokens, host=host_of(nodes))
        line = launch_line(model, lay, nodes, tokens=tokens, recipe=recipe, offload=offload)
        how = f"--torchrun {shlex.quote(line)}"
        held = on.filled(recipe).parts(lay, OFFLOAD[offload])
        padded = model.padded_vocab % lay.tensor  # rows more than a tensor rank's share
        near = {"rel": 1e-3 if padded else 1e-12}
        timed = answered(f"time --cluster dgx-a100 {how}", capsys)
        told = (model.name, lay, line)
        assert timed["total"] == pytest.approx(step.step(on, lay, offload=offload).total, **near), (
            told
        )
        fullest = timed["also"]["memory of the fullest device"]["value"]
        assert fullest == pytest.approx(sum(held), **near), told
        assert answered(f"memory {how}", capsys)["total"] == pytest.approx(fullest), told
        words = shlex.quote(line.partition("pretrain_gpt.py")[2])
        alone = answered(f"memory --data {lay.data} --megatron {words}", capsys)
        assert alone["total"] == pytest.approx(fullest), told
        assert timed["flags"]["unknown"] == [], told
        assert timed["flags"]["assumed"] == ["--attention-backend auto"], told
