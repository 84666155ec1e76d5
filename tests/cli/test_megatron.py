"""Megatron-LM's flags: its own defaults, and no flag that weighs is dropped."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli.options import layout_of, model_of
from mathlib.compute import params
from mathlib.specs import Experts, find_model, table

BASE = "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024"


def launched(flags, model="", options=""):
    typed = args(f'memory {model} {options} --megatron "{flags}"')
    return typed, model_of(typed)


def test_where_nothing_is_said_megatrons_own_defaults_hold_and_are_told(capsys):
    typed, model = launched(f"{BASE} --bf16")
    assert model.dropout is True or typed.value("dropout") is True
    assert typed.value("attention") == "flash" and typed.value("program") == "megatron-core"
    assert typed.assumed == [
        *("--hidden-dropout 0.1, --attention-dropout 0.1", "--attention-backend auto"),
    ]
    data = answered(f'memory --megatron "{BASE}"', capsys)
    assert "megatron-core" in data["keeps"]
    assert any(words.startswith("16 bits") for words in data["flags"]["assumed"])
    none = answered(f'memory --megatron "{BASE} --hidden-dropout 0 --attention-dropout 0"', capsys)
    assert none["total"] < data["total"]
    scores = answered(f'memory --megatron "{BASE} --attention-backend unfused"', capsys)
    assert scores["total"] > data["total"]


@pytest.mark.parametrize(
    ("flags", "recipe"),
    [
        ("--bf16", "mixed-adam-fp32-gradients"),
        ("--bf16 --grad-reduce-in-bf16", "mixed-adam"),
        ("--fp16", "mixed-adam"),
        ("--fp16 --accumulate-allreduce-grads-in-fp32", "mixed-adam-fp32-gradients"),
    ],
)
def test_copies_of_a_parameter_follow_from_the_number_type(flags, recipe):
    assert launched(flags, "gpt2")[0].value("recipe") == recipe


@pytest.mark.parametrize(
    ("flags", "zero"),
    [
        ("--use-distributed-optimizer", 1),
        ("--data-parallel-sharding-strategy optim_grads_params", 0),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", 2),
        (
            "--use-distributed-optimizer --use-megatron-fsdp "
            "--data-parallel-sharding-strategy optim_grads_params",
            3,
        ),
    ],
)
def test_a_stage_of_zero_is_the_optimizers_or_that_of_megatron_fsdp(flags, zero):
    assert launched(flags, "gpt2", "--data 8")[0].value("zero") == zero


def test_what_the_named_model_has_is_not_asked_for():
    line = "--num-layers-per-virtual-pipeline-stage 5 --pipeline-model-parallel-size 4"
    assert launched(line, "llama3-70b")[0].value("chunks") == 4
    own = find_model("mixtral-8x7b")
    assert launched("--num-experts 16", "mixtral-8x7b")[1].experts == Experts(
        16, 2, own.experts.width
    )
    assert launched("--moe-router-topk 1", "mixtral-8x7b")[1].experts.active == 1
    assert launched("--make-vocab-size-divisible-by 1000", "gpt2")[1].padded_vocab == 51000
    with pytest.raises(InputError, match="--num-layers-per-virtual-pipeline-stage: needs"):
        launched("--num-layers-per-virtual-pipeline-stage 5")


def test_deepseek_v3_is_read_from_its_flags():
    line = (
        "--num-layers 61 --hidden-size 7168 --num-attention-heads 128 --ffn-hidden-size 18432 "
        "--seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope "
        "--normalization RMSNorm --swiglu --disable-bias-linear --vocab-size 129280 "
        "--untie-embeddings-and-output-weights --multi-latent-attention --q-lora-rank 1536 "
        "--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
        "--num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 "
        "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq ([0]*3+[1]*58) "
        "--moe-token-dispatcher-type alltoall --moe-router-enable-expert-bias"
    )
    _, model = launched(line)
    assert params.total(model) == params.total("deepseek-v3")


@pytest.mark.parametrize(
    "flags",
    [
        *(
            "--cpu-offloading --cpu-offloading-num-layers 4",
            "--optimizer muon",
            "--mtp-num-layers 1",
        ),
        *("--recompute-granularity full --recompute-method block", "--fp8-format hybrid"),
        *("--exp-avg-dtype fp8", "--transformer-impl local", "--cp-comm-type allgather"),
        "--decoder-first-pipeline-num-layers 2 --pipeline-model-parallel-size 2",
        "--account-for-embedding-in-pipeline-split --num-layers 7 --pipeline-model-parallel-size 2",
    ],
)
def test_what_is_not_modelled_ends_and_is_named(flags):
    with pytest.raises(InputError, match="changes memory or time and is not counted here"):
        launched(flags, "llama2-7b")
    args(f'params llama2-7b --megatron "{flags}"')  # where it has no part


def test_every_flag_that_weighs_is_megatrons_and_neutral_values_have_no_part():
    row = table("launches")["megatron"]
    assert set(row["weighs"]) <= set(row["flags"])
    neutral = " ".join(f"--{name} {value}" for name, value in row["weighs"].items() if value)
    typed, _ = launched(neutral, "gpt2")
    assert not typed.uncounted and "--optimizer" in typed.ignored


def test_what_megatron_does_not_hide_without_its_flags_is_in_sight(capsys):
    base = "time llama3-8b --cluster dgx-h100 --data 4 --tensor 2 --sequence-parallel --zero 1"
    typed = answered(base, capsys)["total"]
    flags = "--overlap-grad-reduce --overlap-param-gather --tp-comm-overlap --bf16"
    seconds = [
        answered(f'{base} --megatron "{" ".join(flags.split()[i:])}"', capsys)["total"]
        for i in range(4)
    ]
    assert seconds[0] == typed
    assert seconds == sorted(seconds) and len(set(seconds)) == 3, "gathers need the sums hidden"
    told = answered(f'{base} --megatron "--bf16"', capsys)["flags"]["assumed"]
    assert {"no --overlap-grad-reduce", "no --tp-comm-overlap"} <= set(told)


def test_uneven_stages_are_those_that_are_counted():
    line = "--pipeline-model-parallel-size 4 --num-layers 30"
    both = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    typed, model = launched(f"{BASE.replace('--num-layers 8', line)} {both}")
    assert layout_of(typed, model, uneven=True).pipeline == 4 and not typed.uncounted
    laid = "Et*7|t*8|(t*8|)t*7L".replace("(t*8|)", "t*8|")
    typed, _ = launched(
        f"{BASE.replace('--num-layers 8', line)} --pipeline-model-parallel-layout {laid}".replace(
            "|", "\\|"
        )
    )
    assert typed.value("chunks") == 1 and not typed.uncounted


def test_a_flag_without_the_one_that_it_needs_is_named_and_unsaid_sizes_are_megatrons():
    lone = "--num-query-groups 4 --kv-lora-rank 8 --window-attn-skip-freq 2"
    typed, _ = launched(f"{BASE} {lone} --data-parallel-sharding-strategy optim")
    assert typed.ignored == [
        "--num-query-groups (without --group-query-attention)",
        "--kv-lora-rank (without --multi-latent-attention)",
        "--window-attn-skip-freq (without --window-size)",
        "--data-parallel-sharding-strategy (without --use-megatron-fsdp)",
    ]
    typed, model = launched(f"{BASE} --group-query-attention --vocab-size 50257 --bf16")
    assert (model.kv_heads, model.padded_vocab) == (1, 50304)
    assert "--num-query-groups 1" in typed.assumed
    wider = launched(f"{BASE} --vocab-size 50257 --tensor-model-parallel-size 8")[1]
    assert wider.padded_vocab == 51200
    shared = launched("--moe-shared-expert-intermediate-size 14336", "mixtral-8x7b")[1]
    assert shared.experts.shared == 1
