"""What commands print is what the library says."""

import json

import pytest
from command_line import answer_of

from mathlib import specs
from mathlib.compute import flops, params
from mathlib.memory import fit
from mathlib.traffic import comm, mesh


def test_params_are_the_librarys(run):
    assert answer_of(run, "params gpt2-xl")["total"] == params.total("gpt2-xl")
    assert answer_of(run, "params gpt2-xl")["unit"] == "parameter"
    assert (
        answer_of(run, "params deepseek-v3 --active --embeddings head")["total"]
        == params.active("deepseek-v3", embeddings="head").total
    )
    assert answer_of(run, "params --layers 24 --width 1024")["total"] == params.total("gpt2-medium")
    variant = specs.find_model("llama2-7b").but(kv_heads=8, tied=True)
    assert answer_of(run, "params llama2-7b --kv-heads 8 --tied")["total"] == params.total(variant)
    assert "1,557,611,200" in run("params gpt2-xl")[1]


def test_a_config_stands_for_a_name(run, tmp_path):
    file = tmp_path / "config.json"
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32}
    rest = {"intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 4096}
    file.write_text(json.dumps({"model_type": "llama"} | sizes | rest), "utf-8")
    assert answer_of(run, f"params --config {file}")["total"] == params.total("llama2-7b")
    eight = specs.find_model("llama2-7b").but(kv_heads=8)
    found = answer_of(run, f"params --config {tmp_path} --kv-heads 8")
    assert found["total"] == params.total(eight)
    for command in ("flops", "memory", "comm step"):
        found = answer_of(run, f"{command} --config {file}")
        assert found["total"] == answer_of(run, f"{command} llama2-7b")["total"]


def test_a_long_context_is_no_length_of_a_sequence(run, tmp_path):
    """What a model could read is rarely what it is trained on: at most 8,192 where none is said."""
    file = tmp_path / "config.json"
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    config = {"model_type": "llama", "vocab_size": 99, "intermediate_size": 128} | sizes
    config |= {"max_position_embeddings": 131072, "unsloth_fixed": True}
    file.write_text(json.dumps(config), "utf-8")
    lines = (f"memory {file}", f"flops {file}", f"comm step {file} --data 2", "flops mixtral-8x7b")
    for line in (*lines, f"kv {file}", f"time {file} --device h100-sxm"):
        said = run(line)[1]
        own = 32768 if "mixtral" in line else 131072
        assert f"sequences of 8,192 tokens; --tokens for others, up to {own:,}\n" in said, line
        assert ("ignored, no part of this: unsloth_fixed" in said) == (own > 32768)
        short, long = (answer_of(run, f"{line} --tokens {n}") for n in ("8k", "128k"))
        assert answer_of(run, line)["total"] == short["total"], line
        assert "8,192" not in run(f"{line} --tokens 128k")[1] or "kv" in line
        if "kv" not in line:
            each = "tokens of a sequence"
            assert answer_of(run, line)["also"][each] == {"value": 8192, "unit": "token"}
            assert long["also"][each]["value"] == 131072
    longer, short = (answer_of(run, f"kv {file} {n}") for n in ("--context 64k", "--tokens 8k"))
    assert longer["total"] == 8 * short["total"]
    assert "sequences of" not in run(f"params {file}")[1] + run("flops llama3-8b")[1]
    assert "but at most 8,192" in " ".join(run("memory --help")[1].split())


def test_flops_are_the_librarys(run):
    data = answer_of(
        run,
        "flops gpt2 --sequences 8 --tokens 512 --causal --recompute selective --attention-backward "
        "2.5",
    )
    counted = flops.training(
        "gpt2", sequences=8, tokens=512, causal=True, recompute="selective", attention_backward=2.5
    )
    assert data["total"] == counted.total and data["unit"] == "FLOP"
    assert data["parts"]["backward"]["total"] == counted.amount("backward")


def test_a_run_has_time_and_price(run):
    also = answer_of(
        run,
        "flops gpt3-175b --train 300B --device a100-80gb --devices 1024 --utilization 0.45 --price "
        "2",
    )["also"]
    flop = flops.run("gpt3-175b", total_tokens=300e9).total
    assert also["time"] == {"value": pytest.approx(flop / (1024 * 0.45 * 312e12)), "unit": "second"}
    assert also["price"]["value"] == pytest.approx(2 * 1024 * also["time"]["value"] / 3600)
    assert also["run in PF/s-days"]["value"] == pytest.approx(flop / 8.64e19)


def test_memory_is_the_librarys_and_says_whether_it_fits(run):
    layout = specs.Layout(data=8, zero=3)
    needed = fit.training("llama2-7b", layout, recipe="mixed-adam", dropout=False)
    data = answer_of(
        run, "memory llama2-7b --recipe mixed-adam --zero 3 --data 8 --no-dropout --memory 80GB"
    )
    assert data["total"] == pytest.approx(needed.total) and data["unit"] == "byte"
    assert data["verdict"].startswith("fits") == (needed.total <= 80e9)
    assert "does not fit" in run("memory llama2-7b --memory 24GiB")[1]
    device, memory = (
        run(f"memory gpt2 {of}")[1] for of in ("--device a100-80gb", "--memory 80GiB")
    )
    assert device.replace(" (as A100 80 GB SXM reports it; sold with 80 GB)", "") == memory


def test_comm_is_the_librarys(run):
    data = answer_of(
        run, "comm all-reduce --payload 1GB --ranks 8 --bandwidth 300GB/s --latency 5us"
    )
    assert data["a rank sends"] == {
        "value": comm.sent("all-reduce", payload=1e9, ranks=8),
        "unit": "byte",
    }
    whole = comm.time("all-reduce", payload=1e9, ranks=8, bandwidth=300e9, latency=5e-6).total
    assert data["time"] == {"value": pytest.approx(whole), "unit": "second"}
    step = answer_of(run, "comm step gpt2 --data 4 --zero 3")
    assert step["parts"]["data"]["total"] == pytest.approx(3 * 3 / 4 * 2 * params.total("gpt2"))
    assert step["parts"]["tensor"]["total"] == step["parts"]["pipeline"]["total"] == 0


def test_comm_says_when_it_prints_a_mean(run):
    one = answer_of(run, "comm send --payload 1GB --ranks 8")
    assert one["a rank sends"]["value"] == 1e9, "one rank sends, however many there are"
    tree = answer_of(run, "comm broadcast --payload 1GB --ranks 8")
    assert tree["a rank sends, on average"]["value"] == 7e9 / 8
    assert tree["the busiest"]["value"] == 3e9, "the root sends to 3 ranks"


def test_groups_with_experts_are_those_of_both_grids(run):
    command = "groups --world 8 --tensor 2 --expert 2"
    groups = answer_of(run, command)["groups"]
    assert groups["dp"] == mesh.megatron(world=8, tp=2, ep=2).groups("dp")
    assert groups["dense dp"] == mesh.megatron(world=8, tp=2).groups("dp")
    assert {len(group) for group in groups["dp"]} == {2}
    assert {len(group) for group in groups["dense dp"]} == {4}
    assert [axis for axis in groups if "dense" in axis] == ["dense dp"]
    assert "grid of the experts" in run(command)[1]
    alone = run("groups --world 8 --tensor 2")[1]
    assert "dense" not in alone and "experts" not in alone


def test_groups_are_the_librarys(run):
    assert answer_of(run, "groups --world 16 --tensor 2 --pipeline 4")["groups"][
        "tp"
    ] == mesh.megatron(world=16, tp=2, pp=4).groups("tp")
    rows = mesh.deepspeed(("pipe", "data", "model"), (2, 4, 2))
    topology = answer_of(run, "groups --world 16 --tensor 2 --pipeline 2 --order deepspeed")
    assert topology["groups"]["data"] == rows.groups("data")
    assert (
        answer_of(run, "groups --world 32 --tensor 2 --shard 8 --order sagemaker")["sizes"][
            "replica"
        ]
        == 2
    )


def test_lists_are_whole_and_can_be_narrowed(run):
    everything = answer_of(run, "models")
    assert [one["name"] for one in everything] == list(specs.table("models"))
    assert all(
        one["source"] and one["parameters"] == params.total(one["name"]) for one in everything
    )
    assert {one["name"] for one in answer_of(run, "models palm")} == {
        "palm-8b",
        "palm-62b",
        "palm-540b",
    }
    devices = answer_of(run, "devices")
    assert [one["name"] for one in devices["devices"]] == list(specs.table("devices"))
    assert devices["units"]["memory"] == "byte"
