"""The command line: its help and its examples, and one line for whatever is wrong."""

import json
import math
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import COMMANDS, EXAMPLES, answer_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import PATIENCE

import mathlib
from mathlib.cli import registry
from mathlib.workshop import grade


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_of_the_help_runs(run, line):
    command = line.removesuffix(" --json")
    code, out, err = run(command)
    assert (code, err) == (0, "") and len(out.splitlines()) >= 3
    assert all(line == line.rstrip() for line in out.splitlines())
    assert answer_of(run, command)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("paramz gpt2", "'paramz' is no command: did you mean params?"),
        ("inference gpt2", "'inference' is no command: did you mean kv?"),
        ("xyzzy", "'xyzzy' is no command: expected params, flops"),
        ("params", "expected a name"),
        ("params gtp2", "did you mean gpt2"),
        ("params t5-3b", "an encoder-decoder is not covered"),
        ("params gpt2 --config a.json", "--config a.json: expected without the model gpt2"),
        ("params --config no/such.json", "--config no/such.json: cannot be read"),
        ("flops gpt2 --tokens 4096", "--tokens 4096: gpt2 has learned positions"),
        ("memory gpt2 --memory 8GF", "a number in bytes or text such as"),
        ("comm all-reduce --bandwidth 3x", "a number in byte/s or text such as"),
        ("params gpt2 --layers 0", "--layers 0"),
        ("params gpt2 --layers -3", "--layers -3"),
        ("params gpt2 --layers 2.5", "--layers 2.5"),
        ("params gpt2 --layers many", "--layers: 'many'"),
        ("params gpt2 --heads 7", "--heads 7: does not divide width = 768"),
        ("params --layers 2 --width 100", "--heads"),
        ("params gpt2 --positions rope", "--positions rope"),
        ("params gpt2 --embeddings some --active", "--embeddings some"),
        ("params gpt2 --layres 3", "--layres"),
        ("params gpt2 --layers nan", "--layers"),
        ("params gpt2 --layers 1e400", "--layers"),
        ("params gpt2 --layers", "--layers"),
        ("flops gpt2 --tokens 5GB", "--seq-length: '5GB': 'GB' is not a unit of token"),
        ("flops gpt2 --tokens 0", "--tokens 0"),
        ("flops gpt2 --attention-backward 3", "--attention-backward 3: expected one of 2, 2.5"),
        ("flops gpt2 --recompute all", "--recompute all"),
        ("flops gpt2 --train 1B --device a100", "device"),
        ("flops gpt2 --train 1B --device a100-80gb --devices 0", "--devices 0"),
        ("flops gpt2 --devices 8", "train"),
        (
            "flops gpt2 --train 1B --device a100-80gb --devices 8 --utilization 40",
            "40': expected a share, such as 40% or 0.4",
        ),
        ("memory gpt2 --memory 80", "expected a unit, such as 80GB or 80GiB"),
        ("memory gpt2 --memory 80GB/s", "--memory: '80GB/s'"),
        ("memory gpt2 --zero 4", "--zero 4"),
        ("memory gpt2 --data 8 --shard 3 --zero 1", "--shard 3: does not divide --data 8"),
        ("memory gpt2 --data 8 --shard 4", "--shard 4: no effect without ZeRO"),
        ("memory gpt2 --recipe adm", "--recipe adm: no such name; did you mean"),
        (
            "memory gpt2 --pipeline 13",
            "--pipeline 13: more than layers = 12, so that a stage would be empty",
        ),
        ("memory gpt2 --pipeline-stage 3", "--pipeline-stage 3"),
        ("memory gpt2 --memory 0", "--memory 0"),
        ("comm all-reduce", "--payload: needed"),
        ("comm all-recude --payload 1 --ranks 2", "did you mean all-reduce"),
        ("comm all-reduce --payload 1GB --ranks 0", "--ranks 0"),
        ("comm all-reduce --payload -1 --ranks 2", "--payload -1"),
        ("comm all-reduce --payload 1GB --ranks 8 --bandwidth 0", "--bandwidth 0"),
        ("comm step gpt2 --tensor 5", "--tensor 5"),
        ("groups", "--world"),
        ("groups --world 10 --tensor 4", "does not divide --world 10"),
        ("groups --world 8 --order xy", "--order xy"),
        ("models zzz", "zzz"),
        ("devices zzz", "zzz"),
        ("groups --world 1e30", "world"),
        ("groups --world 16 --tensor 0", "--tensor 0: expected a whole number"),
        ("groups --world 16 --context-parallel 2.5", "--context-parallel 2.5"),
        ("memory llama2-7b --context-parallel 3", "--context-parallel 3: does not divide tokens"),
        ("kv gpt2 --bytes 0", "--bytes 0: expected a number greater than 0"),
        ("kv gpt2 --weight-bytes -1 --memory 8GB", "--weight-bytes -1"),
        ("flops gpt2 --train -1", "--train -1"),
        ("cost gpt2 --train -1 --device h100-sxm --devices 8", "--train -1"),
        ("cost gpt2 --train 1B --device h100-sxm --devices 8 --price -1", "--price -1"),
        ("cost gpt2 --train 1B --device h100-sxm --devices 8 --co2 -1", "--co2 -1"),
        ("cost gpt2 --train 1B --device h100-sxm --within 0", "--within 0"),
        ("plan gpt2 --cluster dgx-a100", "--devices: needed"),
        ("plan gpt2 --cluster dgx-a100 --devices 2 --batch 2 --top 0", "--top 0: expected"),
        ("memory gpt2 --micro-batches 0", "--micro-batches 0: expected a whole number, 1 or"),
        ("memory gpt2 --layers 2 --layers 3", "--layers: typed 2 times; expected once"),
        ("memory llama2-7b --head-dim 127", "--head-dim 127: expected an even number"),
        (["params", "x" * 5000], "xxx: no such name; `mathlib models` lists all"),
        ("why memory gpt2 --program fsdp", "the formulas here are of PyTorch's own operations"),
        ("memory gpt2 --nvme 2TB", "--nvme: no effect on this answer"),
        (
            "memory gpt2 --program megatron-core --offload weights",
            "--offload weights: expected one of none, states",
        ),
        ("memory gpt2 --program megatron", "--program megatron: did you mean megatron-"),
        (["slower", "time 'gpt2", "3s"], "no closing quotation"),
        (["compare", "gpt2", "memory 'gpt2"], "no closing quotation"),
        ("params no.json", "model no.json: cannot be read"),
        ("memory gpt2 --megatron '--tensor-model-parallel-size 5'", "--tensor-model-parallel-size"),
    ],
)
def test_bad_input_is_one_clear_line_and_code_2(run, command, said):
    if not said:
        assert run(command)[0] == 0
        return
    code, out, err = run(command)
    assert code == 2 and out == "" and err.count("\n") == 1 and err.endswith("\n")
    assert said in err and err.startswith("mathlib") and "Traceback" not in err


@pytest.mark.parametrize("line", ["params nosuch", "params gpt2 --layres 3", "kv gpt2 --bytes 0"])
def test_who_asked_for_json_gets_the_error_as_json(run, line):
    told = run(line)[2].removeprefix("mathlib: error: ").strip()
    code, out, err = run(f"{line} --json")
    assert (code, out) == (2, "") and json.loads(err) == {"error": told, "status": 2}


def test_no_command_prints_the_list(run):
    code, out, err = run("")
    assert (code, err) == (0, "") and all(f"  {name} " in out for name in COMMANDS)
    assert run("help") == run("--help") == (code, out, err)


def test_the_version_is_that_of_the_package(run):
    root = Path(mathlib.__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    assert run("--version") == run("version") == (0, f"mathlib {project['version']}\n", "")
    assert project["scripts"] == {"mathlib": "mathlib.cli.parser:main"}


WORDS = st.sampled_from(
    [
        "gpt2",
        "llama2-7b",
        "deepseek-v3",
        "--layers",
        "--heads",
        "--tokens",
        "--data",
        "--zero",
        "--json",
        "3",
        "8",
        "0",
        "-1",
        "1e9",
        "80GB",
        "nan",
        "--memory",
        "--recompute",
        "full",
        "--tensor",
        "--pipeline",
        "--world",
        "all-reduce",
        "step",
        "--payload",
        "--ranks",
        "--causal",
        "",
        "--",
        "-x",
        "--experts",
        "--width",
        "64",
    ]
)


@given(st.sampled_from(sorted(COMMANDS)), st.lists(WORDS, max_size=6))
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_end_in_an_answer_or_one_line(run, command, words):
    code, out, err = run([command, *words])
    assert code in (0, 1, 2) and (code < 2) == (err == "") and err.count("\n") <= 1
    assert (out == "") == (code == 2)
    assert "nan" not in out.split() and "inf" not in out.split() and not math.isnan(len(out))


def test_an_interrupt_is_quiet(run, monkeypatch):
    def interrupted(args):
        raise KeyboardInterrupt

    params_command = replace(COMMANDS["params"], answer=interrupted)
    monkeypatch.setitem(registry.COMMANDS, "params", params_command)
    assert run("params gpt2") == (130, "", "")


def test_a_reader_who_leaves_is_no_error():
    """As in `python -m mathlib models --json | head -1`: the pipe closes before everything is
    written.
    """
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONPATH": str(Path(mathlib.__file__).parent.parent)}
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "mathlib", "models", "--json"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=PATIENCE,
            check=False,
        )
    assert done.stderr == b"" and done.returncode == 141


def test_the_module_exits_with_the_code(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(mathlib.__file__).parent.parent)}
    small = ["memory", "gpt2", "--memory", "5GB"]
    for words, code in ((["params", "gpt2"], 0), (small, 1), (["params", "nosuch"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "mathlib", *words],
            capture_output=True,
            env=environment,
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )
        assert (
            done.returncode == code
            and bool(done.stdout) == (code < 2)
            and bool(done.stderr) == (code == 2)
        )


@pytest.mark.parametrize(
    "page", ["README.md", "mathlib/README.md", "book/how-to-run.md", "book/teaching.md"]
)
def test_what_the_pages_tell_to_type_runs(run, page, tmp_path, monkeypatch):
    root = Path(mathlib.__file__).parent.parent
    text = (root / page).read_text("utf-8")
    lines = re.findall(r"^python -m mathlib (\w.*)$|`mathlib (\w+ [^`]*)`", text, re.M)
    monkeypatch.chdir(tmp_path)
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    config = {"model_type": "llama", "vocab_size": 99, "intermediate_size": 128} | sizes
    Path("config.json").write_text(json.dumps(config), "utf-8")
    Path("my_ring.py").write_text(grade.find("ring").solution, "utf-8")
    assert len(lines) > 3
    for line in map("".join, lines):
        assert run(line)[0] == 0, line
