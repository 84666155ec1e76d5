"""mathlib why: the printed line of arithmetic comes to the printed number, and to the library's."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli import why
from mathlib.memory import fit
from mathlib.specs import Layout

SHAPES = ("gpt2", "gpt3-175b", "llama2-7b", "llama3-70b")
EXACT = [
    *(f"kv {model} --tokens 1k --sequences 3" for model in (*SHAPES, "deepseek-v3")),
    "kv llama3-70b --tensor 16",
    "comm all-reduce --payload 1GB --ranks 8 --bandwidth 300GB/s --latency 5us",
    "comm all-gather --payload 1MB --ranks 5 --bandwidth 1GB/s",
    "comm all-to-all --payload 1MB --ranks 5",
    "cost gpt3-175b --train 300B --device a100-80gb --devices 1024 --price 2",
    "memory llama2-7b --zero 3 --data 8",
    "memory llama2-7b --zero 2 --data 8 --recompute full",
    "memory llama3-70b --tensor 8 --sequence-parallel --tokens 2k --micro-batch 2",
    "memory gpt3-175b --tensor 8 --pipeline 16 --sequence-parallel",
    "memory gpt3-175b --tensor 8 --sequence-parallel --recompute selective",
]


@pytest.mark.parametrize("line", EXACT)
def test_a_formula_with_its_numbers_is_the_librarys_value(line, capsys):
    found = answered(f"why {line}", capsys)["formulas"]
    assert found
    for one in found:
        printed = eval(one["numbers"].replace("^", "**"))
        assert printed == pytest.approx(one["result"], rel=1e-8), one["what"]
        assert one["result"] == pytest.approx(one["value"], rel=1e-9), one["what"]


@pytest.mark.parametrize("line", [*(f"params {m}" for m in SHAPES), "flops llama2-7b"])
def test_what_a_short_formula_leaves_out_is_said_and_small(line, capsys):
    found = answered(f"why {line}", capsys)["formulas"]
    for one in found:
        if one["formula"] != "12 * L * h^2":  # of GPT-2's kind alone
            assert one["result"] == pytest.approx(one["value"], rel=2e-3), one["what"]


def test_text_shows_letters_numbers_result_and_place(capsys):
    why.why_command(args("why kv mistral-7b --tokens 8k"))
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "  2 * L * B * s * k * d * e / t"
    assert out[2] == "  = 2 * 32 * 1 * 8192 * 8 * 128 * 2 / 1"
    assert "counted in full" in out[4] and out[5].endswith("(eq-kv-cache)")


def test_the_sum_at_the_end_is_what_memory_answers(capsys):
    *_, last = answered("why memory llama2-7b --zero 3 --data 8", capsys)["formulas"]
    assert last["value"] == fit.training("llama2-7b", Layout(data=8, zero=3)).total


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("why", "expected a command of params, flops"),
        ("why models", "expected a command of"),
        ("why comm broadcast --payload 1GB --ranks 8", "expected one of all-reduce"),
        ("why cost gpt2 --train 1B --device a100-80gb --within 8h", "expected --devices"),
        ("why params gpt2 --embeddings none", "--embeddings: no effect"),
    ],
)
def test_what_has_no_formula_is_refused(line, told):
    with pytest.raises(InputError, match=told):
        why.why_command(args(line))
