"""Adapters and 4-bit bases: what they compute, what gets a gradient, what they hold."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import matrix_updates, params
from mathlib.memory import states
from mathlib.model import llama, lora
from mathlib.model.quantise import in_blocks

SHAPE = specs.find_model("llama3-8b").but(
    **{"name": "small", "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16},
    **{"vocab": 100, "context": 16, "ffn_width": 96},
)


def filled(layer):
    nn.init.normal_(layer.up)
    return layer


def test_an_adapter_is_a_change_of_the_weight_and_its_gradients_are_shares_of_that_one_s():
    torch.manual_seed(0)
    base = nn.Linear(12, 20, bias=False, dtype=torch.double)
    own = filled(lora.Adapted(base, rank=3, alpha=6, dtype=torch.double))
    merged = (base.weight + 2 * own.up @ own.down).detach().requires_grad_()
    x = torch.randn(5, 12, dtype=torch.double)
    assert torch.allclose(own(x), x @ merged.T)
    (x @ merged.T).square().sum().backward()
    own(x).square().sum().backward()
    assert torch.allclose(own.down.grad, 2 * own.up.T @ merged.grad)
    assert torch.allclose(own.up.grad, 2 * merged.grad @ own.down.T)


def test_a_magnitude_scales_rows_whose_norm_is_a_constant():
    torch.manual_seed(0)
    base = nn.Linear(12, 20, bias=False, dtype=torch.double)
    own = filled(lora.Dora(base, rank=3, alpha=6, dtype=torch.double))
    x = torch.randn(5, 12, dtype=torch.double)
    own(x).square().sum().backward()
    parts = own.magnitude, own.up, own.down
    gradients = [p.grad.clone() for p in parts]
    for constant in (True, False):
        size, up, down = (p.detach().clone().requires_grad_() for p in parts)
        change = base.weight.detach() + 2 * up @ down
        norms = change.norm(dim=1)
        weight = size[:, None] * change / (norms.detach() if constant else norms)[:, None]
        assert torch.allclose(own(x), x @ weight.T)
        wanted = torch.autograd.grad((x @ weight.T).square().sum(), (size, up, down))
        alike = [torch.allclose(*pair) for pair in zip(gradients, wanted, strict=True)]
        assert alike == [True, constant, constant], "through the norm they would be others"


def test_magnitudes_start_as_the_norms_and_their_products_are_the_formula_s():
    x, whole = torch.randint(100, (2, 16)), llama.Llama(SHAPE)
    before, targets = whole(x), ("query", "down")
    net = lora.adapt(whole, rank=4, targets=targets, magnitude=True)
    assert torch.allclose(net(x), before)
    own = params.lora(SHAPE, rank=4, targets=targets, magnitude=True).total
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == own
    assert own == params.lora(SHAPE, rank=4, targets=targets).total + 2 * (64 + 64)
    plain = lora.adapt(llama.Llama(SHAPE), rank=4, targets=targets)
    flop = []
    for one in (net, plain):
        with FlopCounterMode(display=False) as counter:
            one(x)
        flop.append(counter.get_total_flops())
    assert flop[0] - flop[1] == matrix_updates.adapted_norms(SHAPE, rank=4, targets=targets)


def test_adapters_change_nothing_at_first_and_alone_are_trained():
    x = torch.randint(100, (2, 16))
    whole = llama.Llama(SHAPE)
    before = whole(x)
    net = lora.adapt(whole, rank=4, targets=("query", "down"))
    assert torch.equal(net(x), before)
    trained = {name: p for name, p in net.named_parameters() if p.requires_grad}
    assert all(name.endswith((".down", ".up")) for name in trained)
    own = params.lora(SHAPE, rank=4, targets=("query", "down")).total
    assert sum(p.numel() for p in trained.values()) == own
    with pytest.raises(InputError, match="targets = 'quary'"):
        lora.adapt(llama.Llama(SHAPE), rank=4, targets=("quary",))


def test_a_matrix_in_4_bits_is_the_nearest_numbers_and_passes_the_gradient():
    torch.manual_seed(0)
    linear = nn.Linear(96, 80, bias=False)
    packed = lora.Nf4Linear(linear)
    exact = in_blocks(linear.weight.detach(), "nf4", 64)
    apart = (packed.weight - exact).abs() / exact.abs().max()
    assert (apart < 0.01).float().mean() > 0.99, "scales have 8 bits; few change sides by that"
    assert (packed.weight - linear.weight).abs().max() > 0.02 * exact.abs().max(), "4 bits are few"
    x, other = (torch.randn(7, 96).requires_grad_() for _ in range(2))
    other.data.copy_(x.data)
    packed(x).square().sum().backward()
    (other @ packed.weight.T).square().sum().backward()
    assert torch.equal(x.grad, other.grad)
    with pytest.raises(InputError, match="expected no bias"):
        lora.Nf4Linear(nn.Linear(64, 64))


def test_bytes_of_a_4_bit_model_are_the_formula_s():
    wide = SHAPE.but(width=256, ffn_width=1024, head_dim=64)
    net = lora.adapt(llama.Llama(wide), rank=4, targets=("value",), quantised=True)
    held = [m for m in net.modules() if isinstance(m, lora.Nf4Linear)]
    assert len(held) == 2 * 7
    has = {name: sum(getattr(m, name).nbytes for m in held) for name in ("packed", "scales")}
    seconds = sum(m.second.nbytes for m in held)
    body = sum(one.parameters for one in params.matrices(wide)[:-1])
    told = states.adapters(body, 1, base="nf4", block=64, second_block=256)
    assert has["packed"] == told["frozen weights"]
    assert has["scales"] + seconds == told["scales"]
