"""A model is checked when it is made, and what follows from its sizes follows when they change."""

import math
import re
from dataclasses import FrozenInstanceError, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.architecture import Experts, Latent, Model, Window
from mathlib.checks import InputError

SMALL = {"name": "small", "layers": 2, "width": 64, "heads": 4, "vocab": 100, "context": 32}
BAD = [-1, math.nan, math.inf, True, "2", None, 2.5]


@pytest.mark.parametrize(
    "field",
    [
        "layers",
        "width",
        "heads",
        "vocab",
        "context",
        "kv_heads",
        "head_dim",
        "ffn_width",
        "padded_vocab",
        "position_rows",
        "block_norms",
        "parameters",
    ],
)
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_model_with_a_bad_number_is_refused_by_name(field, value):
    with pytest.raises(InputError, match=field):
        Model(**SMALL | {field: value})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"layers": 1e9}, "layers = 1000000000: expected at most"),
        ({"heads": 3}, "heads = 3: does not divide width = 64"),
        ({"kv_heads": 3}, "kv_heads = 3: does not divide heads = 4"),
        ({"padded_vocab": 99}, "padded_vocab = 99"),
        ({"positions": "rotory"}, "did you mean rotary"),
        ({"norm": "rms"}, "norm = 'rms'"),
        ({"gated": "yes"}, "gated = 'yes'"),
        ({"tied": None}, "tied = None"),
        ({"experts": Experts(routed=4, active=2, width=8, dense_layers=3)}, "dense_layers = 3"),
        ({"latent": "yes"}, "latent"),
        ({"experts": 8}, "experts"),
        ({"window": 4096}, "window = 4096: expected a specs.Window"),
        ({"query_key_norm": True}, "query_key_norm = True"),
        ({"query_key_norm": "heads", "latent": Latent(1, 1, 1, 1)}, "query_key_norm = 'heads'"),
        ({"query_key_norm_bias": 2}, "query_key_norm_bias"),
        ({"attention_sinks": "yes"}, "attention_sinks"),
        ({"parallel_block": 1.5}, "parallel_block"),
    ],
)
def test_a_model_that_cannot_be_is_refused(changes, named):
    with pytest.raises(InputError, match=re.escape(named)):
        Model(**SMALL | changes)


def test_which_layers_are_windowed_and_which_have_experts():
    """Gemma 3 sees all in every sixth layer; Qwen 2 in the first ones; Llama 4 Maverick has experts
    in every second.
    """
    gemma = Window(1024, full_every=6)
    assert [gemma.at(i) for i in range(7)] == [True] * 5 + [False, True]
    assert [Window(8, full_first=2).at(i) for i in range(4)] == [False, False, True, True]
    maverick = Experts(routed=128, active=1, width=8, every=2)
    assert [maverick.at(i) for i in range(4)] == [False, True, False, True]
    model = Model(**SMALL | {"layers": 7, "window": gemma, "experts": maverick})
    assert (model.windowed_layers, model.expert_layers) == (6, 3)
    assert Model(**SMALL).windowed_layers == Model(**SMALL).expert_layers == 0
    with pytest.raises(InputError, match="width = 0"):
        Window(0)
    with pytest.raises(InputError, match="shared_gate = True: expected shared of at least 1"):
        Experts(routed=4, active=1, width=8, shared_gate=True)


def test_experts_and_latents_are_checked():
    with pytest.raises(InputError, match="active = 9: expected at most routed = 8"):
        Experts(routed=8, active=9, width=4)
    for make, name in ((Experts, "width"), (Latent, "kv_rank")):
        good = {f.name: 2 for f in fields(make) if f.name not in ("router_bias", "shared_gate")}
        for value in BAD:
            with pytest.raises(InputError, match=name):
                make(**good | {name: value})


def test_a_model_is_frozen_and_compares_by_what_it_is():
    one, other = Model(**SMALL), Model(**SMALL, source="elsewhere")
    assert one == other and hash(one) == hash(other)
    with pytest.raises(FrozenInstanceError):
        one.layers = 3


@given(st.integers(1, 8), st.integers(1, 16), st.integers(1, 6))
def test_changing_a_width_changes_what_follows_from_it(heads, dim, layers):
    wider = specs.find_model("gpt2").but(width=heads * dim, heads=heads, layers=layers)
    assert (wider.head_dim, wider.ffn_width, wider.kv_heads) == (dim, 4 * heads * dim, heads)
    assert wider == Model(
        "gpt2", layers=layers, width=heads * dim, heads=heads, vocab=50257, context=1024
    )


def test_what_was_chosen_does_not_follow():
    llama = specs.find_model("llama3-8b")
    assert (
        llama.but(width=8192, heads=64).ffn_width == llama.ffn_width
        and llama.but(heads=64).kv_heads == 8
    )
    assert specs.find_model("pythia-1b").but(context=4096).padded_vocab == 50304
    assert specs.find_model("opt-1.3b").but(context=4096).position_rows == 2050
    with pytest.raises(InputError, match="did you mean width"):
        llama.but(widt=3)


def test_what_follows_is_worked_out_in_one_place():
    """Heads of 3 in a width of 10 were chosen: no other change takes that for the usual."""
    chosen = Model(**SMALL | {"width": 10, "heads": 3, "head_dim": 3})
    assert chosen.usual() == {
        "kv_heads": 3,
        "head_dim": 0,
        "ffn_width": 40,
        "padded_vocab": 100,
        "position_rows": 32,
    }
    assert chosen.but(layers=4).head_dim == chosen.but(width=20).head_dim == 3
    assert chosen.but(width=20).ffn_width == 80
