"""Ten tasks of people who size training runs: a command's answer beside a calculation by hand.

The right side of a row is plain arithmetic with the model's published sizes and asks nothing of the
library. What it leaves out, or rounds, is the last number: how far the two may lie apart.
"""

import json
import shlex

import pytest
from command_line import ended

from mathlib.show.launch_flags import launch_line
from mathlib.specs import Layout, find_cluster, find_model


def decoder(layers, width, kv_width, ffn, vocab, experts=1):
    """Parameters of a LLaMA-like model, norms apart: queries and output, keys and values, a gated
    MLP or several; embedding and head.
    """
    return layers * (2 * width**2 + 2 * width * kv_width + 3 * width * ffn * experts) + (
        2 * vocab * width
    )


LLAMA_7B, LLAMA_13B = decoder(32, 4096, 4096, 11008, 32000), decoder(40, 5120, 5120, 13824, 32000)
LLAMA_8B, TABLE = decoder(32, 4096, 1024, 14336, 128256), 128256 * 4096
LLAMA_70B, LLAMA_405B = (
    decoder(80, 8192, 1024, 28672, 128256),
    decoder(126, 16384, 1024, 53248, 128256),
)
H100 = 989e12  # FLOP/s of bf16 without sparsity, by NVIDIA's data sheet
ROOM = 81559 * 2**20  # bytes of an H100 of 80 GB, as nvidia-smi prints them

LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
CONFIGS = {
    "qwen3-235b": {
        "model_type": "qwen3_moe",
        "hidden_size": 4096,
        "num_hidden_layers": 94,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "intermediate_size": 12288,
        "moe_intermediate_size": 1536,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": False,
    },
    "seeing": {  # a model that sees, its text part inside, as Llama 3.2's and Mistral 3's are
        "model_type": "mistral3",
        "text_config": LLAMA_CONFIG | {"model_type": "mistral", "sliding_window": None},
        "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "num_hidden_layers": 24},
    },
}


def full_tuning():
    """16-bit weights, Adam's wide copies: 14 bytes without gradients, as the loss is the fullest
    moment; inputs of layers computed again; 12 bytes a logit; one gathered table in 16 bits.
    """
    states, inputs = 14 * LLAMA_8B / 4, 32 * 8192 * 4096 * 2
    return states + inputs + 12 * 8192 * 128256 + 2 * TABLE


def days_of_7b():
    """6 FLOP a parameter and token and half of attention's 12 L h s, at the 45% that runs reach."""
    flop = 6 * LLAMA_7B + 6 * 32 * 4096 * 4096
    return 2e12 * flop / (256 * H100 * 0.45)


def states_of_235b():
    """94 layers in 8 stages leave 11 for the first, which has the embedding besides. All 64
    replicas share what is not expert: 6 bytes, and 12 in 64 parts; experts are dealt over all 64,
    so that a device's two keep all 18.
    """
    attention = 2 * 4096 * 64 * 128 + 2 * 4096 * 4 * 128 + 4096 * 128  # router last
    experts = 128 * 3 * 4096 * 1536 / 64
    return (11 * attention + 151936 * 4096) * (6 + 12 / 64) + 11 * experts * 18


def sequences_of_70b():
    """A head of keys and one of values on each of 8 devices, beside the weights, in 90%."""
    each = 80 * 2 * 128 * 2 * 32768
    return (0.9 * ROOM - 2 * LLAMA_70B / 8) // each


def devices_for_405b():
    """18 bytes a parameter in what an H100 leaves, and whole nodes."""
    return 8 * -(-18 * LLAMA_405B / (ROOM - 4e9) // 8)


def long_context():
    """States in 8 parts, an input of each layer, 6 bytes a logit and 4 a number before the head; at
    work a layer's six tensors of the stream, keys and values, three of the MLP, and a table with
    its gradient.
    """
    n = 131072 // 8
    work = 2 * n * (6 * 4096 + 2 * 1024 + 3 * 14336) + 6 * TABLE
    return 18 * LLAMA_8B / 8 + 32 * n * 4096 * 2 + n * (6 * 128256 + 4 * 4096) + work


def mfu_of(convention):
    """Of 9,000 tokens a second: PaLM counts all parameters and all pairs, Megatron-LM no embedding
    and half of the pairs.
    """
    pairs = 12 * 32 * 4096 * 8192
    each = 6 * LLAMA_8B + pairs if convention == "palm" else 6 * (LLAMA_8B - TABLE) + pairs / 2
    return 9000 * each / H100


def also(name):
    return lambda data: data["also"][name]["value"]


def counted(name):
    """An MFU by its convention."""
    return lambda data: next(one["mfu"] for one in data["conventions"] if one["name"] == name)


STATES = "weights, gradients, optimizer states"
QWEN = "--program megatron-core --pipeline 8 --data 64 --expert 64 --zero 1 --recompute full"
LONG = "--tokens 128k --context-parallel 8 --zero 3 --recompute full --program megatron-core"
CARD = "--device rtx-4090 --recipe mixed-adam --recompute full --offload parameters"
MFU = "mfu llama3-8b --device h100-sxm --devices 8 --each 9000"
TASKS = [  # task, command line, exit status, what of its answer, by hand, how far apart at most
    (
        "full tuning of 8B on 4 A100 of 80 GB",
        "memory llama3-8b --zero 3 --data 4 --recompute full --device a100-80gb",
        *(0, lambda data: data["total"], full_tuning(), 0.01),
    ),
    (
        "days of 7B on 256 H100",
        "plan llama2-7b --device h100-sxm --devices 256 --batch 1024 --train 2T --top 1",
        *(0, also("whole run"), days_of_7b(), 0.15),
    ),
    (
        "235B with experts on 512 H100",
        f"memory {{qwen3-235b}} --tokens 4k --device h100-sxm {QWEN}",
        *(0, lambda data: data["parts"][STATES], states_of_235b(), 0.001),
    ),
    (
        "largest batch of 70B on 8 H100, 32k tokens of cache each",
        "kv llama3-70b --tokens 32k --tensor 8 --device h100-sxm",
        *(0, also("sequences at once, at most"), sequences_of_70b(), 0),
    ),
    (
        "13B on one card of 24 GB and a host of 128",
        f"memory llama2-13b {CARD} --host-memory 128GB",
        *(1, also("waits on the host"), 16 * LLAMA_13B, 1e-6),
    ),
    (
        "the same with a drive",
        f"memory llama2-13b {CARD} --nvme 2TB",
        *(0, also("waits on the NVMe drives"), 16 * LLAMA_13B, 1e-6),
    ),
    *(
        (f"MFU as {name} has it", MFU, 0, counted(name), mfu_of(name), 1e-4)
        for name in ("palm", "megatron-lm")
    ),
    (
        "fewest H100 for 405B",
        "fit llama3-405b --device h100-sxm",
        *(0, lambda data: data["answers"][0]["value"], devices_for_405b(), 0.1),
    ),
    (
        "8B with 128k tokens over 8 devices",
        f"memory llama3-8b --device h100-sxm {LONG}",
        *(0, lambda data: data["total"], long_context(), 0.001),
    ),
    (
        "a config.json with its text inside",
        "params {seeing}",
        *(0, lambda data: data["total"], LLAMA_8B + (2 * 32 + 1) * 4096, 0),
    ),
]


def asked(line, capsys):
    code, out, err = ended(f"{line} --json", capsys)
    assert not err, err
    return code, json.loads(out)


@pytest.mark.parametrize("row", TASKS, ids=lambda row: row[0])
def test_a_task_is_answered_as_by_hand(row, tmp_path, capsys):
    _, line, status, of, by_hand, apart = row
    for name, config in CONFIGS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config), "utf-8")
        line = line.replace(f"{{{name}}}", str(tmp_path / f"{name}.json"))
    code, data = asked(line, capsys)
    assert code == status, data.get("verdict")
    assert of(data) == pytest.approx(by_hand, rel=apart, abs=0)


def test_a_launch_line_that_was_planned_is_read_back_as_it_was(capsys):
    """The tenth: bytes and seconds of the planned row, by the line that starts it."""
    nodes = find_cluster("dgx-a100")
    _, data = asked("plan llama2-7b --cluster dgx-a100 --devices 16 --batch 64 --top 5", capsys)
    for row in data["layouts"]:
        lay = Layout(**row["layout"])
        how = {"tokens": 4096, "recipe": "mixed-adam-fp32-gradients"}
        line = shlex.quote(launch_line(find_model("llama2-7b"), lay, nodes, **how))
        code, timed = asked(f"time --cluster dgx-a100 --torchrun {line}", capsys)
        assert (code, timed["total"]) == (0, pytest.approx(row["step"]["value"], rel=1e-12))
        _, held = asked(f"memory --torchrun {line}", capsys)
        assert held["total"] == pytest.approx(row["memory"]["value"], rel=1e-12)
