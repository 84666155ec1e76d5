"""Calls that mean harm or make no sense end in one line that says what is wrong, and at once."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import ended
from patience import PATIENCE

import mathlib

LONG = "a" * 5000
REFUSED = [  # a call, and what is said
    (f"params {LONG}", "no such name"),
    (f"params {LONG}.json", "cannot be read"),
    (f"params {'a/' * 2500}", "cannot be read"),
    (f"memory gpt2 --recipe {LONG}", "no such name"),
    ("params 'gpt2\0'", "no such name"),
    ("params /etc", "cannot be read"),
    ("memory -", "model -: no such name"),
    ("plan gpt2 --device h100-sxm --devices 100000000 --batch 8", "at most 1,048,576"),
    ("plan gpt2 --device h100-sxm --devices 1e30 --batch 8", "at most 1,048,576"),
    ("fit gpt2 --device h100-sxm --devices 1e9", "--devices 1,000,000,000: expected at most"),
    ("fit gpt2 --device h100-sxm --batch 0", "--batch 0"),
    ("fit gpt2 --device h100-sxm --devices 8 --batch 0", "--batch 0"),
    ("plan gpt2 --device h100-sxm --devices 0 --batch 8", "--devices 0"),
    ("plan gpt2 --device h100-sxm --devices 8 --batch 8 --memory 3GB", "4 GB: leaves nothing of 3"),
    ("plan gpt2 --device h100-sxm --devices 8 --batch 8 --reserve 90GB", "--reserve 90 GB: leaves"),
    ("plan gpt2 --device h100-sxm --devices 8 --batch 8 --risk 0", "risk"),
    ("memory gpt2 --memory 80GB --reserve -4479190016", "--reserve -4479190016: expected"),
    ("memory gpt2 --memory -3GB", "--memory"),
    ("kv gpt2 --tokens 0", "--tokens 0"),
    ("why kv gpt2 --tokens 0", "tokens = 0"),
    ("kv llama2-7b --sequences 0 --device h100-sxm", "--sequences 0"),
    ("memory llama2-7b --head-dim 127", "--head-dim 127: expected an even number"),
    ("memory llama2-7b --head-dim 127 --positions none --tensor 3", "--tensor 3"),
    ("compare 'time gpt2 --device h100-sxm' 'memory gpt2'", "total is second in one, byte in"),
    ("compare 'memory gpt2' 'params gpt2'", "total is byte in one, parameter in"),
    ("compare 'memory \"' gpt2", "no closing quotation"),
    ("compare '' gpt2", "expected a command"),
    ("compare 'memory gpt2 --zero 7' gpt2", "zero = 7"),
    ("compare 'memory gpt2 --zzz' gpt2", "unrecognized arguments: --zzz"),
    ("slower 'time \"' 3s", "no closing quotation"),
    ("slower 'time gpt2 --device h100-sxm' 0s", "seconds = 0"),
    ("slower 'time gpt2 --device h100-sxm' nans", "TOOK: 'nans'"),
    ("groups --world 1e12", "at most 131,072 ranks"),
    ("params gpt2 --layers 1e12", "--layers 1000000000000: expected at most"),
    ("time gpt2 --device h100-sxm --pipeline 1e9", "more than layers"),
    ("time gpt2 --device h100-sxm --risk 3", "unrecognized arguments"),
    ("comm send --payload 1e300 --ranks 2", "a finite one"),
    ("cost gpt2 --train 1B --device h100-sxm --devices 1e-9", "--devices"),
    ("mfu gpt2 --device h100-sxm --each 1e35", "a finite one"),
    ("why why why", "expected a command"),
    ("schema nosuch", "no command"),
    ("\0", "no command"),
    ("memory gpt2 --torchrun ''", "expected a line, and there is nothing in it"),
    ("memory gpt2 --megatron '\"--bf16'", "no closing quotation"),
    ("memory gpt2 --deepspeed ''", "--deepspeed : cannot be read"),
    ("memory gpt2 --layers 2 --layers=3", "--layers: typed 2 times"),
    ("memory gpt2 --micro-batches 0", "--micro-batches 0"),
    ("plan gpt2 --device h100-sxm --devices 8 --batch 8 --top 0", "--top 0"),
]
FILES = {  # what a file can be, and what is said of it
    "zero": "expected a {kind} file of at most",
    "pipe": "there is nothing in it",
    "folder": "cannot be read (Is a directory)",
    "bytes": "in UTF-8",
    "deep": "expected ",
    "levels": "expected ",
    "twice": "",
    "bomb": "",
}
BOMB = "a: &a {n: 1}\n" + "".join(  # of 2^24 keys
    f"{one}: &{one} {{p: *{other}, q: *{other}}}\n"
    for other, one in pairwise("abcdefghijklmnopqrstuvwxy")
)
TEXTS = {  # what stands in such a file, in each language
    "JSON": ('{"a": ' * 10**5, '{"a": ' * 900 + "1" + "}" * 900, '{"a": 1, "a": 2}', "{"),
    "TOML": ("a = " + "[" * 90_000, "a = " + "[" * 900, "a = 1\na = 2", "a"),
    "YAML": ("a: " + "[" * 90_000, "a: " + "[" * 900, "a: &a {b: *a}", BOMB),
    "text": ("[" * 90_000, "model.x " * 900, "train.x=1 train.x=2", "a"),
}
READ = {  # a call that reads a file, and the language
    "params {}": "JSON",
    "params --config {} --json": "JSON",
    "memory gpt2 --deepspeed {}": "JSON",
    "memory gpt2 --torchrun 'deepspeed --num_gpus 8 a.py --deepspeed {}'": "JSON",
    "memory gpt2 --torchtitan {}": "TOML",
    "time gpt2 --cluster {}": "TOML",
    "memory gpt2 --accelerate {}": "YAML",
    "memory gpt2 --bridge {}": "text",
}


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line[:60] for line, _ in REFUSED])
def test_what_makes_no_sense_is_one_line(line, said, capsys):
    code, out, err = ended(line, capsys)
    assert code == 2 and out == "" and err.count("\n") == 1, err
    assert said.lower() in err.lower() and "Traceback" not in err


@pytest.fixture
def files(tmp_path):
    """A file of each kind, by its name; the endings are those that a call may ask for."""

    def made(kind):
        found = {name: tmp_path / f"{name}.toml" for name in FILES}
        os.mkfifo(found["pipe"])
        found["zero"].symlink_to("/dev/zero")
        found["folder"].mkdir()
        found["bytes"].write_bytes(b"\xff\xfe{\0")
        for name, text in zip(("deep", "levels", "twice", "bomb"), TEXTS[kind], strict=True):
            found[name].write_text(text, "utf-8")
        return found

    return made


@pytest.mark.parametrize("line", READ)
def test_no_file_hangs_or_is_half_understood(line, files, capsys):
    kind = READ[line]
    for name, path in files(kind).items():
        code, out, err = ended(line.format(path), capsys)
        assert code == 2 and out == "" and err.count("\n") == 1, (name, out, err[:300])
        folder = "config.json" if line.startswith("params") else ""
        said = "No such file" if name == "folder" and folder else FILES[name].format(kind=kind)
        assert said in err, (name, err[:300])
        assert "--json" not in line or json.loads(err)["status"] == 2


def test_a_pipe_into_which_somebody_writes_is_read(capsys):
    """As in `mathlib params <(curl ...)`."""
    reading, writing = os.pipe()
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 99}
    with os.fdopen(writing, "w", encoding="utf-8-sig") as file:
        json.dump({"model_type": "gpt2"} | sizes, file)
    code, out, _ = ended(f"params /dev/fd/{reading}", capsys)
    os.close(reading)
    assert code == 0 and "parameter" in out


def test_what_is_odd_but_possible_is_answered(capsys):
    for line in (
        "memory gpt2 --memory 3GB",
        "memory gpt2 --data 1e30 --zero 1",
        "fit llama3-405b --device h100-sxm --batch 1e18",
        "compare gpt2 gpt2",
    ):
        assert ended(line, capsys)[0] in (0, 1), line


@pytest.mark.parametrize(
    "line",
    [
        f"params {LONG}",
        "plan gpt2 --device h100-sxm --devices 100000000 --batch 8",
        "slower ' 3s",
    ],
)
def test_as_a_program_it_ends_and_leaves_no_traceback(line, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mathlib", *line.split(" ")],
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(Path(mathlib.__file__).parent.parent)},
        cwd=tmp_path,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == b"" and b"Traceback" not in done.stderr
