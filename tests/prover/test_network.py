"""The network's parameters, and the degree of what is computed of them."""

from mathlib.layout import Layout
from mathlib.prover.network import smallest


def test_names_are_told_apart_and_units_have_a_layer_or_its_experts():
    net = smallest(Layout(expert=2, data=2), chunks=4, tied=False)
    names = [p.name for p in net.parameters()]
    assert len(set(names)) == len(names) and net.layers == 4 and net.experts == 4
    units = list(dict.fromkeys(p.unit for p in net.parameters()))
    assert units[:4] == ["embedding", "positions", "layers.0", "layers.1"]
    assert "layers.1.experts" in units and "layers.0.experts" not in units
    assert units[-2:] == ["norm", "head"]
    tied = smallest(Layout(), chunks=1)
    assert [p.unit for p in tied.parameters()][-1] == "norm"


def test_sizes_fit_the_layout_and_key_value_heads_have_copies():
    for tensor in range(1, 7):
        for context in (1, 2, 3):
            split = tensor > 1
            lay = Layout(tensor=tensor, context=context, sequence_parallel=split)
            net = smallest(lay, chunks=1)
            assert net.heads % tensor == 0 and net.tokens % (2 * context) == 0
            assert (net.tokens // context) % tensor == 0 and net.tokens >= 4
            assert net.ffn % tensor or tensor == 1
            assert (net.kv_heads < tensor) == (tensor % 2 == 0)


def test_the_degree_grows_by_six_a_layer_and_nine_with_experts():
    plain = [smallest(Layout(), chunks=n).degree for n in (8, 9)]
    assert 5.9 < plain[1] / plain[0] < 6.1
    layout = Layout(data=2, expert=2)
    mixed = [smallest(layout, chunks=n).degree for n in (8, 10)]
    assert 53 < mixed[1] / mixed[0] < 55
    assert smallest(Layout(), chunks=32).degree < 2**100, "far below the prime"
