"""The layer of today: its norm is torch's, and it keeps what the formula says."""

import pytest
import torch
from torch import nn

from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.memory import activations
from mathlib.meters.saved import saved_bytes
from mathlib.model.llama import Llama, Norm
from mathlib.specs import Layout, find_model

SHAPE = find_model("llama3-8b").but(
    layers=2, width=64, heads=8, kv_heads=2, ffn_width=224, context=32, vocab=100
)
BATCH = torch.randint(0, 100, (2, 3, 32), generator=torch.Generator().manual_seed(0))


def test_its_norm_is_torchs():
    ours, theirs = Norm(16).double(), nn.RMSNorm(16, eps=1e-6).double()
    found = []
    for norm in (ours, theirs):
        norm.weight.data = torch.arange(1.0, 17.0, dtype=torch.double)
        x = torch.linspace(-1, 2, 80, dtype=torch.double).view(5, 16).requires_grad_()
        norm(x).pow(3).sum().backward()
        found.append((x.grad, norm.weight.grad))
    assert all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(*found, strict=True))


def test_it_has_the_parameters_of_the_formula():
    found = sum(p.numel() for p in Llama(SHAPE).parameters())
    assert found == params.count(SHAPE).total


@pytest.mark.parametrize("dtype, e", [(torch.float32, 4), (torch.bfloat16, 2)])
def test_it_keeps_what_the_formula_says(dtype, e):
    model = Llama(SHAPE).to(dtype)
    given = {"bytes_per_element": e, "logits_bytes": e, "small_tensors": True}
    wanted = activations.stage(SHAPE, Layout(micro_batch=3), **given).total
    number_of_targets = 4 - e  # which torch keeps in the loss's own type
    assert saved_bytes(lambda: model.loss(*BATCH), model) == wanted - number_of_targets


def test_what_it_is_not_is_refused():
    with pytest.raises(InputError, match="this decoder is built with"):
        Llama(find_model("gpt2"))
