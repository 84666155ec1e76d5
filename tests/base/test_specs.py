"""Models, devices, clusters, layouts: validated at construction, read from data that names its
source.
"""

import math
import re
from dataclasses import FrozenInstanceError, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.specs import Cluster, Device, Experts, Latent, Layout, Model, Window

NAMES = list(specs.table("models"))
SMALL = {"name": "small", "layers": 2, "width": 64, "heads": 4, "vocab": 100, "context": 32}
BAD = [-1, math.nan, math.inf, True, "2", None, 2.5]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_says_where_it_is_from(name):
    model = specs.find_model(name)
    assert model.name == name and len(model.source) > 10
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", model.date)


@pytest.mark.parametrize("name", [name for name in NAMES if specs.find_model(name).parameters])
def test_the_count_is_the_released_checkpoints(name):
    assert params.total(name) == specs.find_model(name).parameters


@pytest.mark.parametrize("kind", ["devices", "clusters"])
def test_every_device_and_cluster_can_be_read_and_says_where_it_is_from(kind):
    read = {"devices": specs.find_device, "clusters": specs.find_cluster}[kind]
    for name in specs.table(kind):
        one = read(name)
        assert one.name == name and one.source and one.date
    if kind == "clusters":
        assert {specs.find_cluster(name).device for name in specs.table(kind)} <= set(
            specs.table("devices")
        )


def test_a_name_is_near_or_refused():
    with pytest.raises(InputError, match="model = 'gpt-2-xl': did you mean .*gpt2-xl"):
        specs.find_model("gpt-2-xl")
    with pytest.raises(InputError, match="device = 'a100'"):
        specs.find_device("a100")
    model = specs.find_model("gpt2")
    assert specs.find_model(model) is model


def test_a_row_like_another_has_its_fields_and_not_its_count(monkeypatch):
    rows = {
        "base": SMALL | {"parameters": 7, "tied": False, "source": "s"},
        "child": {"like": "base", "layers": 3},
        "grandchild": {"like": "child", "width": 128},
    }
    del rows["base"]["name"]
    monkeypatch.setattr(specs, "table", lambda kind: rows)
    child = specs.find_model("grandchild")
    assert (child.layers, child.width, child.tied, child.source, child.parameters) == (
        3,
        128,
        False,
        "s",
        0,
    )


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


@pytest.mark.parametrize(
    "field",
    ["data", "tensor", "pipeline", "chunks", "micro_batch", "micro_batches", "shard", "zero"],
)
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_layout_with_a_bad_number_is_refused_by_name(field, value):
    with pytest.raises(InputError, match=field):
        Layout(**{field: value})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"data": 8, "shard": 3}, "shard = 3: does not divide data = 8; accepted: 1, 2, 4, 8"),
        ({"pipeline": 4, "chunks": 2, "micro_batches": 6}, "micro_batches = 6"),
        ({"chunks": 2}, "chunks = 2"),
        ({"recompute": "all"}, "recompute = 'all'"),
        ({"zero": 4}, "zero = 4"),
        ({"sequence_parallel": "no"}, "sequence_parallel"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(changes, named):
    with pytest.raises(InputError, match=re.escape(named)):
        Layout(**changes)


@given(*[st.integers(1, 12)] * 5)
def test_a_layout_multiplies_out(data, tensor, pipeline, micro_batch, micro_batches):
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        micro_batch=micro_batch,
        micro_batches=micro_batches,
    )
    assert layout.world == data * tensor * pipeline and layout.shard == data
    assert layout.sequences == data * micro_batch * micro_batches


def test_layers_must_divide_over_stages_and_chunks():
    layout = Layout(pipeline=4, chunks=2, micro_batches=8)
    assert layout.layers_of_stage(16) == 4
    with pytest.raises(InputError, match="layers = 12: .* 8 does not divide it"):
        layout.layers_of_stage(12)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
def test_every_layer_has_one_stage_and_chunks_follow_each_other(pipeline, chunks, size):
    layers = pipeline * chunks * size
    stages = specs.stage_layers(layers, pipeline, chunks)
    assert sorted(sum(stages, [])) == list(range(layers))
    walk = [stages[i % pipeline][i // pipeline * size :][:size] for i in range(pipeline * chunks)]
    assert sum(walk, []) == list(range(layers)), (
        "a micro-batch meets stage after stage, then the next chunk"
    )
    layout = Layout(pipeline=2, chunks=chunks, micro_batches=2)
    assert layout.layers_of_stage(2 * chunks * size) == chunks * size


def test_layers_to_stages_names_what_is_wrong():
    with pytest.raises(InputError, match="layers = 10: pipeline . chunks = 4 does not divide"):
        specs.stage_layers(10, 4)
    with pytest.raises(InputError, match="first = -1"):
        specs.stage_layers(8, 4, first=-1)


def test_a_tensor_degree_is_refused_by_what_it_does_not_divide():
    model = Model("m", layers=1, width=96, heads=12, kv_heads=4, vocab=8, context=8, ffn_width=96)
    assert [t for t in (1, 2, 4, 12) if specs.tensor_degree(model, t)] == [1, 2, 4, 12]
    for changes, t, named in (
        ({}, 5, "tensor = 5: does not divide heads = 12"),
        ({}, 6, "tensor = 6: neither divides kv_heads = 4"),
        ({"ffn_width": 98}, 4, "tensor = 4: does not divide ffn_width = 98"),
        ({"experts": specs.Experts(4, 2, 98)}, 4, "tensor = 4: does not divide experts.width"),
    ):
        with pytest.raises(InputError, match=named):
            specs.tensor_degree(model.but(**changes), t)


@pytest.mark.parametrize("name", specs.table("models"))
def test_every_model_says_whether_it_was_trained_with_dropout(name):
    assert "dropout" in specs._model_row(name)


def test_dropout_and_attention_are_the_models_own():
    kinds = {
        n: (m.dropout, m.attention) for n in specs.table("models") for m in [specs.find_model(n)]
    }
    assert kinds["gpt2"] == kinds["gpt3-175b"] == kinds["korthikanti-22b"] == (True, "standard")
    assert kinds["opt-13b"] == kinds["mt-nlg-530b"] == (True, "standard")
    assert kinds["palm-540b"] == (False, "standard")
    assert kinds["bloom-176b"] == (True, "standard"), "the config's 0 is for who uses it"
    assert kinds["llama2-7b"] == kinds["mixtral-8x7b"] == kinds["deepseek-v3"] == (False, "flash")
    with pytest.raises(InputError, match="attention = 'fast'"):
        Model("m", layers=1, width=8, heads=1, vocab=8, context=8, attention="fast")
    with pytest.raises(InputError, match="dropout = 0.1"):
        Model("m", layers=1, width=8, heads=1, vocab=8, context=8, dropout=0.1)


def test_a_device_and_a_cluster_are_checked():
    good = {
        "name": "d",
        "peak": {"bf16": 1e12},
        "memory": 1e9,
        "memory_bandwidth": 1e9,
        "link_bandwidth": 0,
        "power": 100,
    }
    assert Device(**good).flops_per_second("bf16") == 1e12
    with pytest.raises(InputError, match="dtype = 'fp8'"):
        Device(**good).flops_per_second("fp8")
    for field in ("memory", "memory_bandwidth", "link_bandwidth", "power"):
        with pytest.raises(InputError, match=field):
            Device(**good | {field: -1})
    with pytest.raises(InputError, match="peak.bf16"):
        Device(**good | {"peak": {"bf16": 0}})
    with pytest.raises(InputError, match="node_bandwidth"):
        Cluster("c", "d", 8, node_bandwidth=0)
    with pytest.raises(InputError, match="devices_per_node"):
        Cluster("c", "d", 0, node_bandwidth=1e9)


def test_a_table_that_is_none_is_refused():
    with pytest.raises(InputError, match="table = 'model': did you mean models"):
        specs.table("model")
