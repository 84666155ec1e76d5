"""Recomputation written out: the same gradients as without, bytes and FLOP as the formulas and as
torch's own checkpoint have them.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mathlib.memory import activations, kept
from mathlib.meters.flop import count_flop
from mathlib.meters.live import held_bytes
from mathlib.model import data, gpt, llama, oracle, recompute
from mathlib.specs import Layout, find_model
from mathlib.trials.activations import by_torch

SHAPE = gpt.small(layers=4, vocab=len(data.vocabulary()), context=32)
LLAMA = find_model("llama3-8b").but(
    layers=3, width=64, heads=8, kv_heads=2, ffn_width=224, context=32, vocab=57
)
B, e = 4, 4
BATCH = data.batch(B, 32)
TOKENS = B * 32
MODELS = {  # model, its shape, its attention in the formulas, where its results come from
    "plain": (lambda: gpt.GPT(SHAPE), SHAPE, "standard", recompute.GPT),
    "flash": (lambda: gpt.GPT(SHAPE, "flash"), SHAPE, "flash", recompute.GPT_FLASH),
    "llama": (lambda: llama.Llama(LLAMA), LLAMA, "flash", recompute.GATED),
}
LIMIT = 2 * e * TOKENS * 64  # bytes: drops what the MLP has inside, and the scores


def gradients(model, wrap, **how):
    model.zero_grad()
    recompute.loss(model, *BATCH, wrap=wrap, **how).backward()
    return oracle.flat_gradient(model)


def counted(model, wrap, early_stop=True, **how):
    """Bytes that a forward leaves, and FLOP of the backward."""

    def forward():
        return recompute.loss(model, *BATCH, wrap=wrap, **how)

    held = held_bytes(forward, model, *BATCH)
    _, behind = count_flop(forward, model, early_stop)
    return held, sum(behind.values())


def crumbs(which, names, shape):
    """Statistics that come with a kept result: of a norm, and a flash kernel's log-sum-exp."""
    norms = (
        0 if which == "llama" else sum(name in ("attention input", "mlp input") for name in names)
    )
    flash = which != "plain" and "projection input" in names
    return 8 * TOKENS * norms + 4 * shape.heads * TOKENS * flash


@pytest.mark.parametrize("policy", ["selective", "matmuls", "size", "full"])
@pytest.mark.parametrize("which", MODELS)
def test_gradients_bytes_and_flop(which, policy):
    make, shape, attention, places = MODELS[which]
    model, how = make(), {"micro_batch": B, "attention": attention, "bytes_per_element": e}
    names = kept.names(shape, policy=policy, limit=LIMIT, **how)
    choice = kept.layer(shape, keep=names, **how)
    layout = Layout(micro_batch=B, recompute="full")
    given = {"attention": attention, "bytes_per_element": e, "small_tensors": True}
    bare = activations.stage(shape, layout, **given).total - 16 * TOKENS  # without the batch
    inputs = kept.layer(shape, keep=(), **how).bytes
    more = choice.bytes - inputs + crumbs(which, names, shape)
    wanted, (_, without) = gradients(model, recompute.plain), counted(model, recompute.plain)
    keep = recompute.these(names, places)
    for wrap in (partial(recompute.recomputed, keep=keep), partial(by_torch, keep)):
        assert torch.equal(gradients(model, wrap), wanted)
        held, behind = counted(model, wrap)
        assert held == bare + shape.layers * more
        assert behind == without + shape.layers * choice.flop


@pytest.mark.parametrize("which", MODELS)
def test_without_recomputation_the_meter_sees_what_autograd_saves(which):
    make, shape, attention, _ = MODELS[which]
    held, _ = counted(make(), recompute.plain)
    given = {"attention": attention, "bytes_per_element": e, "small_tensors": True}
    saved = activations.stage(shape, Layout(micro_batch=B), **given).total
    assert held == saved - 16 * TOKENS


WHOLE = {
    "ours": (recompute.recomputed, partial(checkpoint, use_reentrant=False)),
    "ours, reentrant": (recompute.again_whole, partial(checkpoint, use_reentrant=True)),
}


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("ours, theirs", WHOLE.values(), ids=WHOLE)
def test_both_forms_are_torchs(ours, theirs, early_stop, every):
    model = gpt.GPT(SHAPE)
    wanted = gradients(model, recompute.plain)
    stops = {"early_stop": early_stop} if ours is recompute.recomputed else {}
    mine = counted(model, partial(ours, **stops), early_stop, every=every)
    assert mine == counted(model, theirs, early_stop, every=every)
    for wrap in (partial(ours, **stops), theirs):
        assert torch.equal(gradients(model, wrap, every=every), wanted)


@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_a_group_keeps_one_input_and_stops_before_its_last_matmul(every):
    model, how = gpt.GPT(SHAPE), {"micro_batch": B, "attention": "standard", "bytes_per_element": e}
    held, behind = counted(model, recompute.recomputed, every=every)
    least, flop = counted(model, recompute.recomputed, every=SHAPE.layers)
    after, _ = kept.grouped(SHAPE, every=every, **how)
    one, _ = kept.grouped(SHAPE, every=SHAPE.layers, **how)
    assert held - least == after - one
    groups = -(-SHAPE.layers // every)
    last = 2 * TOKENS * SHAPE.ffn_width * SHAPE.width
    assert behind == flop - (groups - 1) * last


@pytest.mark.parametrize("limit", [0, 2 * e * TOKENS * 64, 10**9])
def test_dropping_what_autograd_saves_by_its_size(limit):
    """Without kept results a layer runs again up to the last tensor that was too large."""
    model = gpt.GPT(SHAPE)
    wanted, (held_all, without) = gradients(model, recompute.plain), counted(model, recompute.plain)
    wrap = partial(recompute.recomputed, above=limit)
    assert torch.equal(gradients(model, wrap), wanted)
    held, behind = counted(model, wrap)
    full = counted(model, recompute.recomputed)
    if limit == 10**9:
        assert (held, behind) == (held_all, without)
    else:
        assert behind == full[1]
        assert (held > full[0]) == (limit > 0)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        return nn.functional.dropout(self.inner(x), 0.5).square()


@pytest.mark.parametrize("wrap", [recompute.recomputed, recompute.again_whole])
def test_dropout_falls_as_it_did(wrap):
    layer, found = Noisy(), []
    for way in (recompute.plain, wrap):
        torch.manual_seed(7)
        x = torch.ones(8, 16, requires_grad=True)
        (way(layer, x).sum() + nn.functional.dropout(x).sum()).backward()
        found.append((x.grad.clone(), layer.inner.weight.grad.clone()))
        layer.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_other_masks_would_be_seen(monkeypatch):
    monkeypatch.setattr(recompute, "_random", lambda state: torch.random.fork_rng(devices=[]))
    with pytest.raises(AssertionError):
        test_dropout_falls_as_it_did(recompute.recomputed)


class Ends(nn.Module):
    """A layer whose last matmul goes into a dropout, or on as it is."""

    def __init__(self, noise):
        super().__init__()
        self.inner, self.noise = nn.Linear(16, 16), noise

    def forward(self, x):
        y = self.inner(x.square())
        return x + (torch.native_dropout(y, 0.5, True)[0] if self.noise else y)


@pytest.mark.parametrize("wrap", [recompute.recomputed, partial(checkpoint, use_reentrant=False)])
@pytest.mark.parametrize("noise", [True, False])
def test_a_mask_that_comes_with_a_result_needs_the_matmul_again(wrap, noise):
    layer, x = Ends(noise), torch.ones(8, 16, requires_grad=True)
    behind = [
        sum(count_flop(lambda way=way: way(layer, x).sum(), layer)[1].values())
        for way in (recompute.plain, wrap)
    ]
    assert behind[1] - behind[0] == (2 * 8 * 16 * 16 if noise else 0)
