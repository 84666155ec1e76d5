"""Drafting changes how fast a model writes, and nothing of what it writes."""

from functools import partial

import pytest
import torch

from mathlib.memory import decode_time
from mathlib.model import gpt
from mathlib.model.decoding import generate
from mathlib.model.speculation import certain, instead, judge, keeps, speculate

LARGE = gpt.GPT(gpt.small(layers=3, width=48, vocab=11, context=64), seed=1)
SMALL = gpt.GPT(gpt.small(layers=1, width=16, vocab=11, context=64), seed=2)
with torch.no_grad():
    for built in (LARGE, SMALL):
        for weight in built.parameters():
            weight.mul_(3 if weight.dim() > 1 else 1)
SAMPLED = partial(torch.softmax, dim=-1)
PROMPT = torch.tensor([[3, 1, 4, 1, 5]])


@pytest.mark.parametrize("ahead", [1, 3, 5])
@pytest.mark.parametrize("draft", [SMALL, LARGE], ids=["small", "itself"])
def test_greedy_tokens_are_the_same(draft, ahead):
    wanted = generate(LARGE, PROMPT, 40)
    found = speculate(LARGE, draft, PROMPT, 40, ahead)
    assert torch.equal(found.tokens, wanted)
    assert sum(found.accepted) + found.passes >= 40
    if draft is LARGE:
        assert set(found.accepted) == {ahead} and found.passes == -(-40 // (ahead + 1))


def distributions(seed):
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(2, 7, generator=draw, dtype=torch.double).pow(3).softmax(-1)


@pytest.mark.parametrize("seed", range(5))
def test_a_token_comes_as_often_as_the_large_model_wants(seed):
    """Exactly: what stays of the draft, and what replaces the rest, add up to p."""
    p, q = distributions(seed)
    stays = torch.stack([q[x] * keeps(p, q, x) for x in range(7)])
    total = stays + (1 - stays.sum()) * instead(p, q)
    assert torch.allclose(total, p)
    assert not torch.allclose(stays + (1 - stays.sum()) * p, p, atol=1e-3), "not from p itself"


def test_counted_over_many_draws():
    p, q = distributions(0)
    random, counts = torch.Generator().manual_seed(0), torch.zeros(7)
    for _ in range(4000):
        token = int(torch.multinomial(q, 1, generator=random))
        counts[judge(torch.stack([p, p]), q[None], [token], random)[0]] += 1
    spread = (p * (1 - p) / 4000).sqrt()
    assert ((counts / 4000 - p).abs() < 4 * spread).all()
    assert ((counts / 4000 - q).abs() > 4 * spread).any()


def test_sampled_pairs_come_as_often_as_one_by_one():
    """The model's own two-token distribution, against whole runs of speculation."""
    pairs, runs = torch.zeros(11, 11), 200
    for seed in range(runs):
        one = speculate(LARGE, SMALL, PROMPT, 2, 2, SAMPLED, seed).tokens[0, -2:]
        pairs[one[0], one[1]] += 1
    with torch.no_grad():
        first = LARGE(PROMPT)[0, -1].softmax(-1)
        each = torch.cat([PROMPT.expand(11, -1), torch.arange(11)[:, None]], 1)
        wanted = first[:, None] * LARGE(each)[:, -1].softmax(-1)
    spread = (wanted * (1 - wanted) / runs).sqrt()
    assert ((pairs / runs - wanted).abs() < 5 * spread + 2 / runs).all()


def test_expected_tokens_of_a_pass():
    """A token stays with probability rho, tried by hand."""
    p, q = torch.tensor([0.6, 0.4]), torch.tensor([1.0, 0.0])
    random = torch.Generator().manual_seed(0)
    rows, drafts = p.expand(5, 2), q.expand(4, 2)
    yields = [len(judge(rows, drafts, [0] * 4, random)) for _ in range(3000)]
    assert sum(yields) / 3000 == pytest.approx(
        decode_time.drafted(acceptance=0.6, ahead=4), rel=0.03
    )


def test_a_certain_choice_is_a_distribution():
    logits = torch.tensor([[0.1, 2.0, -1.0]])
    assert certain(logits).tolist() == [[0.0, 1.0, 0.0]]
