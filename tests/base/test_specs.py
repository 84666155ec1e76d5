"""Models, devices and clusters by name: read from data that names its source."""

import re
import tomllib
from pathlib import Path

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.specs import Cluster, Device, Model

NAMES = list(specs.table("models"))
SMALL = {"name": "small", "layers": 2, "width": 64, "heads": 4, "vocab": 100, "context": 32}


@pytest.mark.parametrize("kind", specs.TABLES)
def test_rows_read_one_by_one_are_those_of_the_whole_file(kind):
    path = Path(specs.__file__).parent / "data" / f"{kind}.toml"
    whole, rows = tomllib.loads(path.read_text("utf-8")), specs.table(kind)
    assert dict(rows) == whole and list(rows) == list(whole) and len(rows) == len(whole)


def test_a_row_is_read_when_it_is_asked_for(monkeypatch):
    read, loads = [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: read.append(text) or loads(text))
    rows = specs.Rows('# all\n[a]\nx = 1 # of a\n["b.c, d"]\nx = 2\n[a.e]\ny = [\n["f", 1],\n]\n')
    assert list(rows) == ["a", "b.c, d"] and "a" in rows and "x" not in rows and not read
    assert rows["b.c, d"] == {"x": 2} == rows["b.c, d"] and len(read) == 1
    assert rows["a"] == {"x": 1, "e": {"y": [["f", 1]]}}
    with pytest.raises(KeyError):
        rows["e"]


def test_a_model_says_where_it_is_from():
    for name in NAMES:
        model = specs.find_model(name)
        assert model.name == name and len(model.source) > 10
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", model.date)


def test_the_count_is_the_released_checkpoints():
    for name in [name for name in NAMES if specs.find_model(name).parameters]:
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


@pytest.mark.parametrize("name", specs.table("clusters"))
def test_a_host_is_told_whole_and_with_its_source_or_not_at_all(name):
    one = specs.find_cluster(name)
    told = [one.host_memory, one.host_link, one.host_bandwidth, one.host_source]
    assert all(told) or not any(told)
    device = specs.find_device(one.device)
    assert one.host_link < device.memory_bandwidth and one.host_bandwidth < 1e12


def test_what_calibrations_fit_to_is_made_of_by_a_cluster():
    """AMD's cards beside NVIDIA's: who has a card's rates can plan on it."""
    made = {row["device"] for row in specs.table("clusters").values()}
    assert {"mi300x", "mi250x", "a100-80gb", "h100-sxm", "h200-sxm", "b200-sxm"} <= made


def test_a_row_is_an_object_of_the_class_that_has_its_fields():
    found = specs.row_as(Cluster, "clusters", "dgx-h100", called="word")
    assert found == specs.find_cluster("dgx-h100") and found.source
    with pytest.raises(InputError, match="word = 'dgx-h': did you mean .*dgx-h100"):
        specs.row_as(Cluster, "clusters", "dgx-h", called="word")
    with pytest.raises(TypeError, match="unexpected keyword"):
        specs.row_as(Device, "clusters", "dgx-h100", called="word")


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


def test_every_model_says_whether_it_was_trained_with_dropout():
    for name in specs.table("models"):
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
