"""Every option that a command takes changes its answer, or is refused: none is ignored."""

import contextlib
import io

import pytest

from mathlib.cli import parser, usage

BASES = {  # lines that answer, one for each way a command goes
    "params": ["gpt2", "mixtral-8x7b --active"],
    "flops": ["gpt2", "gpt2 --train 1B --device a100-80gb --devices 8", "gpt2 --tokens 512"],
    "memory": ["gpt2", "mixtral-8x7b --data 8 --tensor 2 --zero 1 --pipeline 2 --memory 80GB"],
    "kv": ["mistral-7b", "llama2-7b --device a100-80gb"],
    "comm": [
        "all-reduce --payload 1GB --ranks 8",
        "all-reduce --payload 1GB --ranks 8 --bandwidth 100GB/s",
        "step mixtral-8x7b --data 8 --tensor 2 --zero 1 --pipeline 2",
    ],
    "groups": ["--world 16", "--world 16 --order deepspeed", "--world 16 --order sagemaker"],
    "prove": [
        "--tensor 2 --data 4 --pipeline 2 --zero 1 --sequence-parallel",
        "--context-parallel 2 --data 2",
    ],
    "grade": ["", "ring"],
    "time": [
        "llama2-7b --cluster dgx-a100 --data 8 --tensor 2 --pipeline 2 --zero 1",
        "llama2-7b --cluster dgx-a100 --data 8 --offload states",
        "llama2-7b --cluster dgx-a100 --data 8 --train 1B",
    ],
    "cost": [
        "gpt2 --train 1B --device a100-80gb --devices 8",
        "gpt2 --train 1B --device a100-80gb",
    ],
    "fit": ["gpt2 --cluster dgx-a100 --devices 1", "gpt2 --cluster dgx-a100 --batch 2"],
    "plan": ["gpt2 --cluster dgx-a100 --devices 2 --batch 2"],
}
VALUES = {  # words that each option takes; 2 where it is a number
    "--algorithm": "tree",
    "--attention": "standard",
    "--attention-backward": "2.5",
    "--bandwidth": "50GB/s",
    "--cluster": "p5.48xlarge",
    "--bytes": "1",
    "--convention": "korthikanti",
    "--context": "512",
    "--depth": "1",
    "--device": "h100-sxm",
    "--dtype": "fp32",
    "--embeddings": "head",
    "--expert-tensor": "1",
    "--latency": "5us",
    "--memory": "6GB",
    "--micro-batches": "4",
    "--norm": "rmsnorm",
    "--mtbf": "1year",
    "--nvme": "1TB",
    "--order": "tp-pp-dp-cp-ep",
    "--payload": "2GB",
    "--positions": "none",
    "--precision": "fp8",
    "--program": "fsdp",
    "--recipe": "sgd",
    "--recompute": "full",
    "--reserve": "84GB",
    "--tokens": "256",
    "--train": "2B",
    "--utilization": "30%",
    "--weight-bytes": "1",
    "--within": "20ms",
    "--co2": "0.4",
    "--head-dim": "32",
    "--host-bandwidth": "100GB/s",
    "--host-link": "8GB/s",
    "--host-memory": "1TB",
    "--offload": "states",
    "--fault": "tied-sum",
    "--all": "tests/helpers",
    "--context-order": "plain",
    "--schedule": "gpipe",
    "--rent": "lambda-a100-sxm",
    "--only": "zero=1",
    "--most": "micro_batch=1",
    "--risk": "10%",
}
LAUNCH = {f"--{name}" for name in parser.LAUNCHES} | {"--config", "--help", "--json"}


def said(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = parser.main(words)
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue()


def options(name):
    """Every option once, with words for it."""
    for action in usage.parser_of(name)._actions:
        option = action.option_strings[0] if action.option_strings else ""
        if option and option not in LAUNCH:
            value = VALUES.get(option, "2") if action.nargs != 0 else ""
            negated = [f"--no-{option[2:]}"] if len(action.option_strings) > 1 else []
            for one in [option, *[n for n in negated if n in action.option_strings]]:
                yield [one, *([value] if value else [])]


@pytest.mark.parametrize("name", BASES)
def test_no_option_is_ignored(name):
    answered = set()
    for base in BASES[name]:
        line = [name, *base.split()]
        code, before = said(line)
        for words in options(name):
            if words[0] in line:
                continue
            now, after = said([*line, *words])
            assert now == 2 or after != before or same_as_own(name, words), (base, words)
            if now == 0 and code == 0:
                answered.add(words[0])
    assert len(answered) >= 3, "or the base lines answer nothing"


def same_as_own(name, words):
    """A switch that says what the model has anyway changes nothing, and may be said; that sequence
    parallelism sends as many bytes is an answer, and so is that nothing here is risky, or that the
    fewest devices need no host.
    """
    if (name, words[0]) in (("comm", "--sequence-parallel"), ("fit", "--offload")):
        return True
    if words[0] == "--risk":
        return True
    return words[0].startswith("--no-") or words[0] in (
        *("--qkv-bias", "--output-bias", "--mlp-bias", "--tied", "--gated", "--dropout"),
        *("--rolling", "--norm", "--attention", "--positions"),
    )
