"""The drawn layer adds up to the formula, and a policy's column shows what it keeps."""

from html import unescape

import pytest

from mathlib.memory import activations, kept
from mathlib.show.schemes.activations import GATED, GELU, MOMENTS, again, block, called, policies
from mathlib.specs import find_model


@pytest.mark.parametrize("name, steps", [("gpt3-175b", GELU), ("llama3-8b", GATED)])
def test_every_tensor_stands_beside_one_operation(name, steps):
    drawn = [tensor for read in steps.values() for tensor in read]
    assert sorted(drawn) == sorted([kept.INPUT, *(one.name for one in kept.tensors(name))])


@pytest.mark.parametrize("name, together", [("gpt3-175b", 114), ("llama3-8b", 41)])
def test_the_squares_add_up(name, together):
    model = find_model(name)
    unit = model.context * model.width
    assert activations.layer(model).total / unit == together
    assert f"together {together}" in block(name, caption="A layer.")._repr_html_()


def test_each_policy_ends_with_its_bytes():
    keeps = {p: kept.names("gpt3-175b", policy=p) for p in ("none", "selective", "matmuls", "full")}
    html = policies("gpt3-175b", keeps, caption="Policies.")._repr_html_()
    for size in (114, 34, 52, 2):
        assert f">{size}</text>" in html or f">{size}<" in html


def test_a_tensor_is_called_by_what_it_is():
    assert called("second input", "gpt3-175b") == "GELU's result"
    assert called("second input", "llama3-8b") == "gate times up"
    names = [called(one.name, "gpt3-175b") for one in kept.tensors("gpt3-175b")]
    assert len(set(names)) == len(names)


def test_scores_are_drawn_with_all_their_squares():
    """80 of 114 bytes: more squares than the rest together."""
    html = unescape(block("gpt3-175b", caption="A layer.")._repr_html_())
    wide = html[: html.index("</svg>")]
    names = ("softmax", "mask of the scores", "scores after dropout", "GELU’s result")
    assert [wide.count(f"<title>{name}</title>") for name in names] == [32, 16, 32, 8]


def test_at_each_moment_at_most_one_inside_is_there():
    assert all(len(there) <= 1 for _, there in MOMENTS)
    html = again(caption="Three layers.")._repr_html_()
    for moment, _ in MOMENTS:
        assert moment in html
