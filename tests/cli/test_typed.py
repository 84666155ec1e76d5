"""Which options were typed, which of them the answer asked for, and refusals in their words."""

from argparse import ArgumentParser

import pytest

from mathlib.checks import InputError
from mathlib.cli.typed import Typed, in_typed_words, parsed


def parser():
    made = ArgumentParser()
    made.add_argument("model", nargs="?")
    made.add_argument("--zero", type=int, default=0)
    made.add_argument("--kv-heads", type=int)
    made.add_argument("--causal", action="store_true")
    return made


def test_what_is_typed_is_known_even_where_it_is_the_default():
    assert parsed(parser(), ["--zero", "0"]).given == {"zero"}
    assert parsed(parser(), []).given == set()
    assert parsed(parser(), ["gpt2", "--causal", "--kv-heads=8"]).given == {
        *("model", "causal", "kv_heads"),
    }


def test_what_no_answer_asks_for_is_refused_by_name():
    typed = parsed(parser(), ["--kv-heads", "8", "--causal"])
    assert typed.kv_heads == 8 and typed.value("causal")
    with pytest.raises(InputError, match="--causal: no effect"):
        typed.refuse_unused()
    assert typed.causal
    typed.refuse_unused()


def test_another_programs_flag_may_say_what_was_typed_but_nothing_else():
    typed = parsed(parser(), ["--zero", "3"])
    typed.take("zero", 3, "--same")
    typed.take("kv_heads", 8, "--num-query-groups")
    typed.take("nothing", 8, "--other")
    with pytest.raises(InputError, match="--zero .3. and --optim .1. differ; leave one out"):
        typed.take("zero", 1, "--optim")
    with pytest.raises(InputError, match="--num-query-groups .8. and --heads .4. differ, for --kv"):
        typed.take("kv_heads", 4, "--heads")
    assert typed.zero == 3 and typed.value("kv_heads") == 8
    typed.refuse_unused()  # nobody asked for kv_heads, so its flag had no part
    assert typed.read == {"zero": "--same"} and typed.ignored == ["--other", "--num-query-groups"]


def test_what_another_program_does_of_itself_gives_way_and_is_told():
    typed = parsed(parser(), ["--zero", "3"])
    typed.assume("zero", 0, "no --zero")
    typed.assume("kv_heads", 4, "four heads")
    typed.assume("nothing", 4, "nothing")
    assert (typed.zero, typed.kv_heads, typed.assumed) == (3, 4, ["four heads"])
    typed.default("zero", 1)
    typed.default("kv_heads", 1)
    assert (typed.zero, typed.kv_heads) == (3, 1)


def test_an_option_is_typed_once():
    for words in (["--zero", "1", "--zero", "2"], ["--causal", "--zero=1", "--causal"]):
        with pytest.raises(InputError, match="typed 2 times; expected once"):
            parsed(parser(), words)


def test_a_refusal_names_what_was_typed():
    typed = Typed({"kv_heads": 7, "device": "x", "model": "y"}, ["kv_heads", "device", "model"])
    assert in_typed_words("kv_heads = 7: no", typed) == "--kv-heads 7: no"
    assert in_typed_words("memory = 'x': no", typed) == "--device x: no"
    assert in_typed_words("model = 'y': no", typed) == "model y: no"
    assert in_typed_words("layers = 12: no", typed) == "layers = 12: no", "nobody typed it"
    typed.read["tensor"] = "--tensor-model-parallel-size"
    told = in_typed_words("tensor = 5: no", typed)
    assert told == "--tensor-model-parallel-size (here --tensor 5): no"


def test_what_is_no_option_is_no_attribute():
    with pytest.raises(AttributeError):
        _ = Typed({}).nothing
