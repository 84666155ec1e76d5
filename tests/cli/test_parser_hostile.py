"""Calls that mean harm or make no sense end in one line that says what is wrong, and at once."""

import os
import subprocess
import sys
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
]


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line[:60] for line, _ in REFUSED])
def test_what_makes_no_sense_is_one_line(line, said, capsys):
    code, out, err = ended(line, capsys)
    assert code == 2 and out == "" and err.count("\n") == 1, err
    assert said.lower() in err.lower() and "Traceback" not in err


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
