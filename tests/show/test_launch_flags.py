"""A launch line says the whole layout, in the words of Megatron-LM and torchrun."""

import re
import shlex

import pytest

from mathlib import specs
from mathlib.layout import chunk_layers
from mathlib.show.launch_flags import launch_line
from mathlib.specs import Layout

H100 = specs.find_cluster("dgx-h100")
RECIPE = "mixed-adam-fp32-gradients"
LAID_OUT = "--pipeline-model-parallel-layout"


def flags(model, layout, recipe=RECIPE, tokens=4096, **more):
    """Each flag of a line with its value; a switch has none."""
    line = launch_line(specs.find_model(model), layout, H100, tokens=tokens, recipe=recipe, **more)
    words = shlex.split(line, comments=True)
    assert words[0] == "torchrun" and "pretrain_gpt.py" in words
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            found[word] = "" if after.startswith("--") else after
    return found


def test_the_axes_and_the_batch_come_back_from_the_line():
    layout = Layout(
        data=8,
        tensor=4,
        pipeline=4,
        chunks=2,
        context=2,
        zero=1,
        micro_batch=2,
        micro_batches=16,
        sequence_parallel=True,
    )
    told = flags("llama3-70b", layout)
    t, c, p = (
        int(told[f"--{axis}-parallel-size"])
        for axis in ("tensor-model", "context", "pipeline-model")
    )
    world = int(told["--nnodes"]) * int(told["--nproc-per-node"])
    assert (t, c, p, world) == (4, 2, 4, layout.world)
    assert world // (t * c * p) == layout.data
    b, B = int(told["--micro-batch-size"]), int(told["--global-batch-size"])
    assert (b, B // (b * layout.data)) == (layout.micro_batch, layout.micro_batches)
    assert told["--num-virtual-stages-per-pipeline-rank"] == "2"
    assert "--sequence-parallel" in told and "--use-distributed-optimizer" in told
    assert told["--seq-length"] == "4096" and "--recompute-granularity" not in told


@pytest.mark.parametrize(
    ("changed", "wanted", "unwanted"),
    [
        ({"zero": 0}, {}, ["--use-distributed-optimizer"]),
        ({"zero": 2}, {"--data-parallel-sharding-strategy": "optim_grads"}, []),
        ({"zero": 3}, {"--data-parallel-sharding-strategy": "optim_grads_params"}, []),
        ({"zero": 1, "shard": 4}, {"--num-distributed-optimizer-instances": "4"}, []),
        ({"recompute": "full"}, {"--recompute-granularity": "full"}, []),
        ({"recompute": "selective"}, {"--recompute-granularity": "selective"}, []),
    ],
)
def test_zero_and_recomputation(changed, wanted, unwanted):
    told = flags("llama2-7b", Layout(**{"data": 16} | changed))
    assert wanted.items() <= told.items() and not set(unwanted) & set(told)


@pytest.mark.parametrize("model", ["llama3-8b", "gpt3-175b", "mixtral-8x7b", "qwen2.5-7b"])
def test_every_flag_is_one_that_the_programs_have(model):
    known = set(specs.table("launches")["megatron"]["flags"])
    known |= {"nnodes", "nproc-per-node", "standalone"}
    known |= {"rdzv-backend", "rdzv-endpoint", "rdzv-id"}  # torchrun's
    for zero in (0, 1, 2, 3):
        for again in ("none", "selective", "full"):
            layout = Layout(
                data=8, tensor=2, pipeline=3, chunks=1, zero=zero, shard=4, recompute=again
            )
            for recipe in (RECIPE, "mixed-adam"):
                told = flags(model, layout, recipe, offload="both")
                assert {flag.removeprefix("--") for flag in told} <= known


@pytest.mark.parametrize("chunks", [1, 2, 4, 8])
def test_ends_with_a_layer_fewer_are_counted_as_layers(chunks):
    """Llama 3 405B: embedding and loss are its 127th and 128th layer for Megatron-LM."""
    told = flags("llama3-405b", Layout(pipeline=16, chunks=chunks, micro_batches=16))
    ends = {f"--account-for-{end}-in-pipeline-split" for end in ("embedding", "loss")}
    assert ends <= set(told) and "--pipeline-model-parallel-layout" not in told
    assert told.get("--num-virtual-stages-per-pipeline-rank", "1") == str(chunks)
    even = flags("llama3-405b", Layout(pipeline=18, micro_batches=18))
    assert not ends & set(even)


@pytest.mark.parametrize(("pipeline", "chunks"), [(5, 1), (9, 1), (6, 3), (9, 2), (10, 2)])
def test_other_uneven_stages_are_written_out_layer_by_layer(pipeline, chunks):
    """As docs.nvidia.com/megatron-core has it: "Et*3|(tt|)*29,m|L"."""
    layout = Layout(pipeline=pipeline, chunks=chunks, micro_batches=pipeline)
    told = flags("llama2-7b", layout)
    text = re.sub(r"\(([^)]*)\)\*(\d+)", lambda one: one[1] * int(one[2]), told[LAID_OUT])
    assert text[0] == "E" and text[-1] == "L" and "*" not in text
    held = [len(chunk.strip("EL")) for chunk in text.split("|")]
    assert held == chunk_layers(32, pipeline, chunks)
    assert "--num-virtual-stages-per-pipeline-rank" not in told


def test_experts_are_dealt_out():
    told = flags("mixtral-8x7b", Layout(data=8, expert=8))
    assert told["--num-experts"] == "8" and told["--moe-router-topk"] == "2"
    assert told["--expert-model-parallel-size"] == "8"
    assert told["--expert-tensor-parallel-size"] == "1"


def test_the_shape_of_the_model():
    told = flags("llama3-8b", Layout())
    assert told["--num-query-groups"] == "8" and "--swiglu" in told and "--standalone" in told
    assert told["--normalization"] == "RMSNorm" and "--disable-bias-linear" in told
    told = flags("gpt3-175b", Layout(), tokens=2048)
    assert not {"--swiglu", "--num-query-groups", "--disable-bias-linear"} & set(told)


def test_states_that_wait_on_the_host_are_asked_for():
    for offload, asked in (("none", False), ("states", True), ("activations", False)):
        told = flags("llama2-7b", Layout(), offload=offload)
        assert ("--optimizer-cpu-offload" in told) == asked
        assert told.get("--optimizer-offload-fraction") == ("1.0" if asked else None)


def test_matmuls_of_fewer_bits_are_asked_for():
    for precision, flag, word in (
        ("fp8", "--fp8-format", "hybrid"),
        ("fp4", "--fp4-format", "e2m1"),
    ):
        told = flags("llama3-8b", Layout(), precision=precision)
        assert told[flag] == word and "--bf16" in told
    assert not {"--fp8-format", "--fp4-format"} & set(flags("llama3-8b", Layout()))


def test_what_no_flag_says_is_said():
    def comments(model, recipe, **more):
        shape = (specs.find_model(model), Layout(), H100)
        line = launch_line(*shape, tokens=2048, recipe=recipe, **more)
        return " ".join(re.findall("^# (.*)$", line, re.MULTILINE))

    assert "8 bits" in comments("llama2-7b", "mixed-adam-8bit")
    assert "8 bits" not in comments("llama2-7b", "mixed-adam")
    assert "Activations" in comments("llama2-7b", RECIPE, offload="both")
    assert "Activations" not in comments("llama2-7b", RECIPE, offload="states")
    assert "alibi positions" in comments("bloom-7b1", RECIPE)
    assert "--rotary-base" in comments("llama2-7b", RECIPE)
    assert "--rotary-base" not in comments("gpt2-xl", RECIPE)


def test_what_the_time_and_the_bytes_rely_on_is_asked_for():
    full = Layout(data=2, tensor=2, zero=1, sequence_parallel=True)
    hidden = {"--overlap-grad-reduce", "--overlap-param-gather", "--tp-comm-overlap"}
    told = flags("llama2-7b", full)
    assert hidden <= set(told)
    assert (told["--hidden-dropout"], told["--attention-dropout"]) == ("0", "0")
    assert (told["--vocab-size"], told["--make-vocab-size-divisible-by"]) == ("32000", "16000")
    assert not hidden & set(flags("llama2-7b", Layout()))
    assert hidden & set(flags("llama2-7b", Layout(data=2))) == {"--overlap-grad-reduce"}
    assert flags("mistral-7b", Layout())["--window-size"] == "4095,0"
    latent = flags("deepseek-v3", Layout())
    assert latent["--kv-lora-rank"] == "512" and latent["--moe-layer-freq"] == "([0]*3+[1]*58)"


@pytest.mark.parametrize(("world", "nodes"), [(12, "2"), (20, "4"), (7, ""), (24, "3")])
def test_as_many_processes_start_as_are_planned(world, nodes):
    told = flags("gpt2-xl", Layout(data=world))
    assert int(told.get("--nnodes", 1)) * int(told["--nproc-per-node"]) == world
    assert told.get("--nnodes", "") == nodes
