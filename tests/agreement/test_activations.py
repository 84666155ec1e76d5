"""What layers keep and compute again: formula beside run, for choices that nobody named, for groups
of layers, for the loss in pieces and for tensors that are sent away.
"""

from functools import partial

import pytest
import torch

from mathlib.memory import activations, kept
from mathlib.meters import live
from mathlib.meters.flop import count_flop
from mathlib.model import chunked_loss, gpt, llama, offload, oracle, recompute
from mathlib.specs import Layout, find_model
from mathlib.trials.activations import in_turn

GELU = gpt.small(layers=4, width=64, heads=4, vocab=64, context=64)
GATED = find_model("llama3-8b").but(
    layers=4, width=64, heads=8, kv_heads=2, ffn_width=224, context=32, vocab=64
)
MODELS = {
    "plain": (lambda: gpt.GPT(GELU), GELU, "standard", recompute.GPT),
    "flash": (lambda: gpt.GPT(GELU, "flash"), GELU, "flash", recompute.GPT_FLASH),
    "llama": (lambda: llama.Llama(GATED), GATED, "flash", recompute.GATED),
}
B, e = 2, 4


def batch(shape):
    draw = torch.Generator().manual_seed(0)
    return tuple(torch.randint(shape.vocab, (2, B, shape.context), generator=draw))


def counted(model, shape, forward):
    held = live.held_bytes(forward, model, *batch(shape))
    _, behind = count_flop(forward, model)
    gradient = oracle.flat_gradient(model)
    model.zero_grad()
    return held, sum(behind.values()), gradient


def together(choice, tensors):
    """The same choice, with queries, keys and values kept in as few layers as the rarest one."""
    names = ("queries", "keys", "values")
    least = min(choice.layers.get(name, 0) for name in names)
    fewer = {one: choice.layers.get(one.name, 0) - least for one in tensors if one.name in names}
    return kept.Choice(
        choice.bytes - sum(n * one.bytes for one, n in fewer.items()),
        choice.flop + sum(n * one.flop for one, n in fewer.items()),
        choice.layers | dict.fromkeys(names, least),
    )


@pytest.mark.parametrize("share", [0.15, 0.5, 0.85])
@pytest.mark.parametrize("which", MODELS)
def test_the_best_choice_for_a_budget(which, share):
    make, shape, attention, places = MODELS[which]
    model, how = make(), {"micro_batch": B, "attention": attention, "bytes_per_element": e}
    line = kept.curve(shape, **how)
    budget = line[0].bytes + share * (line[-1].bytes - line[0].bytes)
    choice = kept.best(shape, budget=budget, **how)
    if which != "llama":  # there queries, keys and values are one matmul: kept together
        choice = together(choice, kept.tensors(shape, **how))
    _, plain, wanted = counted(model, shape, lambda: recompute.loss(model, *batch(shape)))
    full = counted(model, shape, partial(run, model, shape, recompute.recomputed))[0]

    def forward():
        return run(model, shape, in_turn(choice, shape.layers, places))

    held, behind, gradient = counted(model, shape, forward)
    log_sums = 4 * shape.heads * B * shape.context * (which != "plain")
    crumbs = log_sums * choice.layers.get("projection input", 0)
    assert held == full + choice.bytes - line[0].bytes + crumbs
    assert behind == plain + choice.flop
    assert torch.equal(gradient, wanted)


def run(model, shape, wrap):
    return recompute.loss(model, *batch(shape), wrap=wrap)


@pytest.mark.parametrize("every", [1, 2, 4])
def test_the_fullest_moment_of_groups(every):
    """The run holds some working tensors besides, less than half of a layer's."""
    model, how = gpt.GPT(GELU), {"micro_batch": B, "attention": "standard", "bytes_per_element": e}
    with live.live(model) as meter:
        for tensor in batch(GELU):
            meter.follow(tensor, "temporary")
        recompute.loss(model, *batch(GELU), wrap=recompute.recomputed, every=every).backward()
    rows = meter.timeline().rows
    most = max(sum(row.values()) - row["weights"] - row["gradients"] for row in rows)
    one = activations.layer(GELU, bytes_per_element=e, micro_batch=B).total
    _, wanted = kept.grouped(GELU, every=every, **how)
    assert wanted < most < wanted + one / 2


@pytest.mark.parametrize("pieces", [4, 16])
def test_a_loss_in_pieces_keeps_two_gradients(pieces):
    n, h, V = 128, 32, 31 * 32
    x, weight = torch.randn(n, h, requires_grad=True), torch.nn.Linear(h, V, bias=False)
    targets = torch.randint(V, (n,))

    def forward():
        return chunked_loss.chunked_loss(x, weight.weight, targets, pieces=pieces)

    assert live.held_bytes(forward, weight, x, targets) == 4 * (n * h + V * h)


def test_what_is_sent_away_is_what_the_layers_keep():
    model, layout = llama.Llama(GATED), Layout(micro_batch=B)
    given = {"bytes_per_element": e, "small_tensors": True}
    with offload.offloaded(model) as moved:
        loss = recompute.loss(model, *batch(GATED))
    assert moved.bytes == activations.stage(GATED, layout, **given).total
    loss.backward()
    assert moved.left == 0
