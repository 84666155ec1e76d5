"""Flags of other programs as words; a typo comes with the flag that is meant."""

import pytest

from mathlib.checks import InputError
from mathlib.cli import flags
from mathlib.cli.typed import Typed


def test_a_line_is_cut_up_as_a_shell_does():
    text = '# a comment\n--layout "E t" \\\n  --lr=1e-4 \\\n --bf16'
    words = flags.words_of(text, "--megatron")
    assert words == ["--layout", "E t", "--lr=1e-4", "--bf16"]
    assert flags.flags_of(words, "--megatron") == {"layout": ["E t"], "lr": ["1e-4"], "bf16": []}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('--data-path "a b', "--megatron: no closing quotation in "),
        ("", "--megatron '': expected a line, and there is nothing in it"),
        ("# only a comment", "there is nothing in it"),
        ("tensor 8", "--megatron tensor: expected flags, each with -- before it"),
        ("--seed 1 --seed 2", "--seed: said twice, 1 and 2; expected once"),
    ],
)
def test_a_line_that_says_nothing_or_two_things_is_refused(text, told):
    with pytest.raises(InputError) as refused:
        flags.flags_of(flags.words_of(text, "--megatron"), "--megatron")
    assert told in str(refused.value)
    assert flags.flags_of(["--seed", "1", "--seed", "1"], "") == {"seed": ["1"]}


def test_a_near_miss_is_refused_and_what_is_far_from_all_is_named():
    typed = Typed({})
    with pytest.raises(InputError, match="did you mean --sequence-parallel\\?"):
        flags.unknown(typed, "megatron", "sequence-paralel", "--sequence-paralel")
    with pytest.raises(InputError, match="x.stag: DeepSpeed has none such; did you mean x.stage"):
        flags.unknown(typed, "deepspeed", "stag", "x.stag")
    flags.unknown(typed, "megatron", "my-own-thing", "--my-own-thing")
    assert typed.unknown == ["--my-own-thing"]


def test_a_number_is_one_whole_number():
    assert flags.number("--n", ["1_000"]) == 1000
    for wrong in (["1", "2"], ["-1"], ["1.5"], ["x"], []):
        with pytest.raises(InputError, match="expected a whole number"):
            flags.number("--n", wrong)
