"""Today's decoder is what its description says: parameters, masks, shared heads, experts."""

from dataclasses import replace

import pytest
import torch
from small_decoders import EXPERTS, KINDS, tiny

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.model import modern


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def model(request):
    return tiny(**request.param)


def logits(built, tokens):
    with torch.no_grad():
        return built.double()(tokens)


def test_every_parameter(model):
    assert sum(p.numel() for p in modern.Modern(model).parameters()) == params.count(model).total


def test_no_token_looks_ahead(model):
    built, tokens = modern.Modern(model), torch.arange(24)[None]
    later = tokens.clone()
    later[0, 17] = 90
    one, other = logits(built, tokens), logits(built, later)
    assert torch.allclose(one[:, :17], other[:, :17], atol=1e-12)
    assert not torch.allclose(one[:, 17:], other[:, 17:], atol=1e-6)


def test_a_window_ends_where_it_should():
    near = modern.Modern(tiny(layers=1, window=specs.Window(6)))
    tokens = torch.arange(24)[None]
    changed = tokens.clone()
    changed[0, 10] = 90
    moved = (logits(near, tokens) - logits(near, changed)).abs().amax(-1)[0] > 1e-9
    assert moved.nonzero().flatten().tolist() == list(range(10, 16))


@pytest.mark.parametrize("window", [None, specs.Window(6)])
def test_the_mask_keeps_the_pairs_that_the_formula_counts(window):
    from mathlib.compute import flops

    kept = ~modern.hidden(24, window.width if window else 24, torch.device("cpu"))
    assert kept.sum() == flops.attention_pairs(tokens=24, causal=True, window=window)


def test_a_shared_key_is_the_same_key_twice():
    grouped = modern.Grouped(tiny()).double()
    q, k, v = grouped(torch.randn(1, 5, 48, dtype=torch.float64))
    assert q.shape == k.shape == v.shape == (1, 4, 5, 16)
    for shared in (k, v):
        assert torch.equal(shared[:, 0], shared[:, 1]) and not torch.equal(
            shared[:, 1], shared[:, 2]
        )


def test_rotation_keeps_lengths_and_knows_distances_only():
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64).expand(2, 1, 1, 9, 16)
    q, k = modern.rotate(q), modern.rotate(k)
    assert torch.allclose(q.norm(dim=-1), q[..., :1, :].norm(dim=-1))
    scores = (q @ k.mT)[0, 0]
    assert torch.allclose(scores.diagonal(2), scores[0, 2].expand(7), atol=1e-6)


def test_a_token_gets_what_its_experts_say():
    experts = modern.Experts(tiny(experts=EXPERTS)).double()
    x = torch.randn(1, 7, 48, dtype=torch.float64)
    weights, chosen = experts.router(x[0]).softmax(-1).topk(2)
    for token in range(7):
        wanted = sum(
            weight * experts.experts[number](x[0, token])
            for weight, number in zip(weights[token], chosen[token], strict=True)
        )
        assert torch.allclose(experts(x)[0, token], wanted)


def test_it_learns():
    torch.manual_seed(0)
    built = modern.Modern(tiny(experts=replace(EXPERTS, shared=1), query_key_norm="head"))
    optimizer, tokens = torch.optim.AdamW(built.parameters(), lr=1e-2), torch.randint(97, (2, 25))
    losses = []
    for _ in range(15):
        losses.append(built.loss(tokens[:, :-1], tokens[:, 1:]))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[0] > 4 and losses[-1] < 2


def test_another_model_is_refused():
    with pytest.raises(InputError, match="positions = 'learned'"):
        modern.Modern(specs.find_model("gpt2"))
    with pytest.raises(InputError, match="slide"):
        modern.Modern(tiny(window=specs.Window(6, chunked=True)))
    with pytest.raises(InputError, match="router_bias"):
        modern.Modern(tiny(experts=replace(EXPERTS, router_bias=True)))
