"""The model and the layout that options describe."""

from dataclasses import fields

import pytest
from command_line import args

from mathlib import specs
from mathlib.checks import InputError
from mathlib.cli import options
from mathlib.specs import Layout


def test_a_named_model_is_the_librarys_until_an_option_changes_it():
    assert options.model_of(args("params gpt2-xl")) == specs.find_model("gpt2-xl")
    changed = options.model_of(args("params gpt2-xl --layers 2"))
    assert (changed.layers, changed.width) == (2, specs.find_model("gpt2-xl").width)
    assert changed.name.endswith(", changed")


def test_a_shape_alone_is_a_gpt2_of_that_shape():
    model = options.model_of(args("params --layers 3 --width 128"))
    assert (model.layers, model.width, model.heads, model.head_dim) == (3, 128, 2, 64)
    assert model.vocab == specs.find_model("gpt2").vocab


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("params", "model: expected"),
        ("params --layers 3", "model: expected"),
        ("params --layers 3 --width 100", "--heads is needed"),
    ],
)
def test_half_a_shape_is_refused_with_what_is_missing(line, told):
    with pytest.raises(InputError, match=told):
        options.model_of(args(line))


def layout(line):
    typed = args(line)
    return options.layout_of(typed, options.model_of(typed))


def test_every_field_of_a_layout_has_an_option():
    first = layout("memory gpt2 --data 4 --tensor 2 --zero 1 --micro-batch 3")
    assert first == Layout(data=4, tensor=2, zero=1, micro_batch=3)
    longer = layout("memory mixtral-8x7b --context-parallel 2 --data 2 --expert 2")
    assert longer == Layout(context=2, data=2, expert=2)
    typed = args("memory gpt2")
    assert all(typed.knows(field.name) for field in fields(Layout))
