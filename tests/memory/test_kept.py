"""What a layer keeps: the list is that of activations, and the choice is the best there is."""

from itertools import product

import pytest

from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.memory import activations, kept
from mathlib.specs import Experts, Model, find_model

DENSE = ("gpt2", "gpt3-175b", "llama2-7b", "llama3-8b", "llama3-70b", "qwen3-8b")
SMALL = Model("small", layers=3, width=8, heads=2, vocab=16, context=4, ffn_width=24)


@pytest.mark.parametrize("attention", ["standard", "flash"])
@pytest.mark.parametrize("name", DENSE)
def test_the_tensors_are_those_of_activations(name, attention):
    for policy in ("none", "selective", "full"):
        keep = kept.names(name, policy=policy, attention=attention)
        wanted = activations.layer(name, recompute=policy, attention=attention).total
        assert kept.layer(name, keep=keep, attention=attention).bytes == wanted


@pytest.mark.parametrize("name", DENSE)
def test_the_matmuls_are_those_of_a_forward(name):
    model = find_model(name)
    parts = flops.forward(model)
    layers = parts.total - parts.amount("vocabulary")
    assert model.layers * kept.forward_flop(model) == layers
    for policy in ("none", "selective", "full"):
        keep = kept.names(model, policy=policy, attention="standard")
        again = kept.layer(model, keep=keep, attention="standard").flop
        how = {"early_stop": True, "last_matmul": False}  # masks are drawn again by themselves
        stopped = flops.recomputation(model, recompute=policy, **how).total
        assert model.layers * again == stopped


def test_a_byte_costs_the_length_of_the_sums_behind_it():
    model = find_model("llama3-8b")
    for one in kept.tensors(model, attention="standard"):
        inner = {"softmax": model.head_dim, "projection input": model.context}
        if one.flop:
            assert one.flop / one.bytes == kept.price(inner=inner.get(one.name, model.width))
    assert kept.price(inner=128) == 128


def test_34_and_what_is_left_of_it():
    gpt3 = find_model("gpt3-175b")
    unit = gpt3.context * gpt3.width
    left = {p: kept.layer(gpt3, keep=kept.names(gpt3, policy=p)).bytes / unit for p in
            ("none", "selective", "matmuls", "full")}  # fmt: skip
    assert left == {"none": 34 + 80, "selective": 34, "matmuls": 20 + 32, "full": 2}


def test_selective_saves_nothing_beside_a_flash_kernel():
    for name in ("llama2-7b", "llama3-8b"):
        assert kept.names(name, policy="selective") == kept.names(name, policy="none")


def test_nearly_half_of_a_gated_layer_comes_back_without_a_matmul():
    one, some = (
        kept.layer("llama3-8b", keep=kept.names("llama3-8b", policy=p)) for p in ("none", "matmuls")
    )
    assert (one.bytes, some.bytes) == (20.5 * 2 * 8192 * 4096, 11.5 * 2 * 8192 * 4096)
    assert some.flop == one.flop == 0


def by_trial(model, budget, **options):
    """Least FLOP done again, found by trying every choice for every layer."""
    made = [one for one in kept.tensors(model, **options) if one.flop]
    sets = list(product((False, True), repeat=len(made)))
    inputs = model.layers * kept.layer(model, keep=(), **options).bytes
    found = {}
    for chosen in sets:
        size = sum(one.bytes for one, yes in zip(made, chosen, strict=True) if yes)
        flop = sum(one.flop for one, yes in zip(made, chosen, strict=True) if not yes)
        found[size] = min(flop, found.get(size, flop))
    layers = {0.0: 0.0}
    for _ in range(model.layers):
        sums = {}
        for (a, x), (c, y) in product(layers.items(), found.items()):
            sums[a + c] = min(x + y, sums.get(a + c, x + y))
        layers = sums
    return min(flop for size, flop in layers.items() if inputs + size <= budget)


@pytest.mark.parametrize("attention", ["standard", "flash"])
def test_no_choice_is_better_than_the_best(attention):
    options = {"attention": attention, "dropout": False}
    line = kept.curve(SMALL, **options)
    for share in (0, 0.1, 0.3, 0.55, 0.8, 1):
        budget = line[0].bytes + share * (line[-1].bytes - line[0].bytes)
        found = kept.best(SMALL, budget=budget, **options)
        assert found.bytes <= budget
        assert found.flop == by_trial(SMALL, budget, **options)


@pytest.mark.parametrize("name", DENSE)
def test_the_curve_falls_and_flattens(name):
    line = kept.curve(name)
    assert (
        line[0].bytes == activations.layer(name, recompute="full").total * find_model(name).layers
    )
    assert line[-1].flop == 0 and line[0].layers == {}
    for one, other in zip(line, line[1:], strict=False):
        assert one.bytes < other.bytes and one.flop > other.flop


def test_some_points_of_the_curve_stand_evenly_along_it():
    line, few = kept.curve("llama3-8b"), kept.curve("llama3-8b", points=5)
    assert few == [line[round(i * (len(line) - 1) / 4)] for i in range(5)]
    with pytest.raises(InputError, match="points = 1"):
        kept.curve("llama3-8b", points=1)


def test_what_a_choice_keeps_is_what_it_weighs():
    made = {one.name: one for one in kept.tensors("llama3-8b")}
    bare, *choices = kept.curve("llama3-8b", points=50)
    for choice in choices:
        sizes = [n * made[name].bytes for name, n in choice.layers.items()]
        spared = [n * made[name].flop for name, n in choice.layers.items()]
        assert (choice.bytes, choice.flop) == (bare.bytes + sum(sizes), bare.flop - sum(spared))


def test_sizes_without_a_common_measure_stay_within_the_budget():
    odd = Model("odd", layers=5, width=997 * 4, heads=4, vocab=16, context=7, ffn_width=4093)
    half = kept.curve(odd)[-1].bytes / 2
    assert 0.95 * half < kept.best(odd, budget=half).bytes <= half


def test_a_budget_below_the_inputs_is_refused():
    with pytest.raises(InputError, match="the layers' inputs alone"):
        kept.best("llama3-8b", budget=1e9)


def test_what_is_no_row_of_equal_layers_is_refused():
    with pytest.raises(InputError, match="without experts"):
        kept.tensors(SMALL.but(experts=Experts(routed=4, active=2, width=8), gated=True))
    with pytest.raises(InputError, match="without parallel_block"):
        kept.tensors("gpt-neox-20b")
    with pytest.raises(InputError, match="block_norms = 2"):
        kept.tensors(SMALL.but(block_norms=4))


def test_groups_of_layers():
    one = kept.layer("gpt3-175b", keep=kept.names("gpt3-175b", policy="none")).bytes
    x = activations.hidden_state("gpt3-175b")
    assert kept.grouped("gpt3-175b", every=1) == (96 * x, 95 * x + one)
    assert kept.grouped("gpt3-175b", every=96) == (x, 96 * one)
    assert kept.grouped("gpt3-175b", every=10)[0] == 10 * x
    assert min(range(1, 97), key=lambda n: kept.grouped("gpt3-175b", every=n)[1]) == 1


def test_links():
    W = kept.even_bandwidth(inner=4096, flops_per_second=400e12)
    assert W == 400e12 / 4096
    model = find_model("llama3-8b")
    per_token = 26 * model.width**2 + 4 * model.context * model.width  # FLOP of a layer's forward
    least = kept.hiding_bandwidth(model, flops_per_second=400e12)
    assert least == pytest.approx(400e12 * 41 * model.width / per_token)


def test_what_costs_no_matmul_costs_the_way_to_memory_and_back():
    """Two norms, a SiLU and the product with it: 4 + 4 + 14 + 21 bytes of s b h."""
    keep = kept.names("llama3-8b", policy="matmuls")
    rates = {"flops_per_second": 400e12, "bytes_per_second": 3e12}
    seconds = kept.again_seconds("llama3-8b", keep=keep, **rates)
    assert seconds == pytest.approx(43 * 8192 * 4096 / 3e12)
    full = kept.again_seconds("llama3-8b", keep=(), **rates)
    assert full - seconds == pytest.approx(kept.layer("llama3-8b", keep=()).flop / 400e12)
    everything = kept.names("llama3-8b", policy="none")
    assert kept.again_seconds("llama3-8b", keep=everything, **rates) == 0


def test_selective_recomputation_reads_and_writes_scores():
    keep = kept.names("gpt3-175b", policy="selective")
    rates = {"flops_per_second": 1e30, "bytes_per_second": 1e12}
    moved = (32 + 32) + 16 + (32 + 16 + 32)  # softmax, its mask, dropout
    seconds = kept.again_seconds("gpt3-175b", keep=keep, **rates)
    assert seconds == pytest.approx(moved * 2048 * 12288 / 1e12)
