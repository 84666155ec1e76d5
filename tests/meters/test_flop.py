"""The meter of FLOP: known amounts come out exactly, each in its part."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from mathlib.meters import flop
from mathlib.model import data, dry_run, gpt
from mathlib.parts import Parts

MODEL = gpt.small(vocab=len(data.vocabulary()))
TOKENS, TARGETS = data.batch(2, MODEL.context)


def test_one_linear_layer_costs_2_forward_and_4_backward():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8, requires_grad=True)
    forward, backward = flop.count_flop(lambda: layer(x).sum(), layer)
    assert forward.total() == 2 * 4 * 8 * 16 and backward.total() == 4 * 4 * 8 * 16


def test_an_input_without_gradient_saves_one_matmul():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8)
    forward, backward = flop.count_flop(lambda: layer(x).sum(), layer)
    assert backward.total() == forward.total() == 2 * 4 * 8 * 16


@pytest.mark.parametrize("attention, factor", [("plain", 2), ("flash", 2.5)])
def test_parts_of_the_gpt(attention, factor):
    model = gpt.GPT(MODEL, attention)
    forward, backward = flop.count_flop(lambda: model.loss(TOKENS, TARGETS), model)
    B, S, L, h, V = 2, MODEL.context, MODEL.layers, MODEL.width, MODEL.vocab
    assert forward == {
        "attention projections": 2 * B * S * L * 4 * h * h,
        "mlp": 2 * B * S * L * 8 * h * h,
        "attention core": 4 * B * S * S * h * L,
        "vocabulary": 2 * B * S * h * V,
    }
    assert backward == {
        part: (factor if part == "attention core" else 2) * n for part, n in forward.items()
    }


def test_recomputation_is_counted_in_the_backward():
    plain, _ = dry_run.dry_run(MODEL, sequences=2)
    for recompute, again in (
        ("selective", {"attention core"}),
        ("full", set(plain) - {"vocabulary"}),
    ):
        model = gpt.GPT(MODEL, recompute=recompute)
        _, backward = flop.count_flop(lambda m=model: m.loss(TOKENS, TARGETS), model, False)
        assert backward == {part: (3 if part in again else 2) * n for part, n in plain.items()}, (
            recompute
        )


LINEAR, CORE = "linear", "attention core"
LAYER, X = nn.Linear(8, 8, bias=False), torch.ones(4, 8, requires_grad=True)
BARE = nn.Parameter(torch.ones(8, 8))
PRODUCTS = {  # what is computed, and the part that its forward is booked to
    "a slice of a weight": (lambda: X @ LAYER.weight[:4].t(), {LINEAR: 2 * 4 * 8 * 4}),
    "an input's own matmul, before its layer": (
        lambda: (X @ X.t()).sum() + LAYER(X),
        {LINEAR: 2 * 4 * 8 * 4 + 2 * 4 * 8 * 8},
    ),
    "an input's own matmul, after its layer": (
        lambda: LAYER(X) + (X @ X.t()).sum(),
        {LINEAR: 2 * 4 * 8 * 4 + 2 * 4 * 8 * 8},
    ),
    "a bare parameter": (lambda: X @ BARE, {CORE: 2 * 4 * 8 * 8}),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_where_a_matmul_is_booked_and_that_the_sum_is_torchs(name):
    compute, booked = PRODUCTS[name]
    forward, backward = flop.count_flop(lambda: compute().sum(), LAYER)
    assert forward == booked and set(backward) == set(booked)
    with FlopCounterMode(display=False) as torchs:
        compute().sum().backward()
    assert torchs.get_total_flops() == forward.total() + backward.total()


def test_multihead_attention_and_the_kernel_that_torch_leaves_out():
    """Tokens 16, width 8: q, k and v come from one weight that no nn.Linear holds."""
    attention, x = nn.MultiheadAttention(8, 2, bias=False), torch.ones(16, 8)
    forward, _ = flop.count_flop(lambda: attention(x, x, x, need_weights=False)[0].sum(), attention)
    projection, core = 2 * 16 * 8 * 8, 4 * 16 * 16 * 8
    assert forward == {CORE: 3 * projection + core, LINEAR: projection}

    q = torch.ones(1, 2, 16, 4, requires_grad=True)

    def fused():
        return F.scaled_dot_product_attention(q, q, q).sum()

    forward, backward = flop.count_flop(fused, LAYER)
    assert (forward, backward) == ({CORE: core}, {CORE: 2.5 * core})
    with FlopCounterMode(display=False) as torchs:
        fused().backward()
    assert torchs.get_total_flops() == 0


def test_a_recomputation_ends_early_unless_told_otherwise():
    """As torch has it: after the last tensor that backward needs, so without the last matmul."""

    def backward(*early_stop: bool) -> int:
        model = gpt.GPT(MODEL, recompute="full")
        return flop.count_flop(lambda: model.loss(TOKENS, TARGETS), model, *early_stop)[1].total()

    assert backward() == backward(True) < backward(False)


def test_a_convolution_counts_too():
    layer, x = nn.Conv2d(3, 4, 3, bias=False), torch.randn(2, 3, 5, 5)
    forward, backward = flop.count_flop(lambda: layer(x).sum(), layer)
    assert forward.total() == backward.total() == 2 * (2 * 4 * 3 * 3) * (3 * 3 * 3)


def test_operations_get_their_keyword_arguments():
    with flop.FlopMeter(nn.Identity()):
        assert torch.zeros(2, dtype=torch.int8).dtype == torch.int8


def test_an_address_that_a_new_tensor_got_means_nothing_of_before():
    meter, x = flop.FlopMeter(nn.Identity()), torch.ones(2)
    forgotten: list[int] = []

    class Noting(dict):
        def pop(self, key, *default):
            forgotten.append(key)
            return super().pop(key, *default)

    meter.inputs = Noting()
    with meter:
        y = x + 1
        y += 1
    assert forgotten == [y.untyped_storage()._cdata]


def test_a_counter_of_kernels_sees_one_attention_and_no_look_up():
    parts = {"mlp": 5.0, "attention scores": 2.0, "attention values": 3.0, "embedding": 0.0}
    assert flop.by_kernel(Parts("", "FLOP", parts)) == {"mlp": 5.0, "attention core": 5.0}
    assert flop.by_kernel(Parts("", "FLOP", {"mlp": 5.0})) == {"mlp": 5.0}
    assert flop.by_kernel(Parts("", "FLOP", {"attention scores": 2.0})) == {"attention core": 2.0}
    assert flop.by_kernel(Parts("", "FLOP", {"attention values": 3.0})) == {"attention core": 3.0}


def test_a_weights_gradient_from_an_unknown_input_is_told_by_the_matmul_after_it():
    layer = nn.Linear(2, 2)
    meter, w = flop.FlopMeter(layer), layer.weight
    x, g, y, other = (torch.ones(2, 2) for _ in range(4))
    meter._add([x, g], 10)  # x was shown by no forward
    assert meter.parts == {flop.CORE: 10}
    meter._add([g, w], 7)  # the gradient of x, by the same g
    assert meter.parts == {flop.CORE: 0, "linear": 17}
    meter._add([g, w], 1)
    assert meter.parts == {flop.CORE: 0, "linear": 18}
    meter._add([y, torch.ones(2, 2)], 3)
    meter._add([other, w], 1)  # has nothing to do with the one before
    a, b = torch.ones(1, 2, 2), torch.ones(1, 2, 2)
    meter._add([a, b], 5)  # of attention, which is batched
    meter._add([b, w], 1)
    assert meter.parts == {flop.CORE: 8, "linear": 20}


def test_attention_may_ask_more_keys_than_it_has_queries():
    q, k, v = (torch.randn(2, 3, length, 8, requires_grad=True) for length in (4, 6, 6))
    with flop.FlopMeter(nn.Identity()) as meter:
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        assert meter.parts == {flop.CORE: 2 * (2 * 2 * 3 * 4 * 6 * 8)}
        out.sum().backward()
    assert meter.parts == {flop.CORE: (2 + 5) * (2 * 2 * 3 * 4 * 6 * 8)}
