"""The GPT of all runs: it is the model the formulas describe, and it starts the same everywhere."""

import pytest
import torch

from mathlib.checks import InputError
from mathlib.model import data, gpt

MODEL = gpt.small(vocab=len(data.vocabulary()))


def test_flash_and_plain_attention_agree():
    tokens, targets = data.batch(3, MODEL.context)
    plain, flash = (
        gpt.GPT(MODEL, attention).loss(tokens, targets) for attention in ("plain", "flash")
    )
    torch.testing.assert_close(plain, flash)


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputation_leaves_the_gradients_as_they_are(recompute):
    tokens, targets = data.batch(3, MODEL.context)
    once, again = gpt.GPT(MODEL), gpt.GPT(MODEL, recompute=recompute)
    for model in (once, again):
        model.loss(tokens, targets).backward()
    for (name, p), q in zip(once.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad), name


def test_no_token_sees_the_future():
    model = gpt.GPT(MODEL)
    tokens = data.batch(1, MODEL.context)[0]
    changed = tokens.clone()
    changed[0, 20] = (changed[0, 20] + 1) % MODEL.vocab
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :20], after[:, :20]) and not torch.equal(
        before[:, 20], after[:, 20]
    )


def test_a_parameter_depends_on_its_name_and_seed_only():
    deep, shallow = gpt.GPT(MODEL.but(layers=4)), gpt.GPT(MODEL)
    for name, p in shallow.named_parameters():
        assert torch.equal(p, deep.get_parameter(name)), name
    assert not torch.equal(shallow.tokens.weight, gpt.GPT(MODEL, seed=1).tokens.weight)
    assert not torch.equal(shallow.blocks[0].mlp.up.weight, shallow.blocks[1].mlp.up.weight)


def test_a_shard_of_a_model_starts_from_the_same_numbers():
    whole, block = gpt.GPT(MODEL), gpt.Block(MODEL)
    gpt.initialise(block, prefix="blocks.1")
    assert torch.equal(block.mlp.up.weight, whole.blocks[1].mlp.up.weight)


def test_it_learns():
    model = gpt.GPT(MODEL)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(40):
        loss = model.loss(*data.batch(8, MODEL.context, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 4.0 and sum(losses[-5:]) / 5 < 3.2


@pytest.mark.parametrize(
    "change", [{"gated": True}, {"kv_heads": 2}, {"positions": "rotary"}, {"norm": "rmsnorm"}]
)
def test_a_model_it_cannot_build_is_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        gpt.GPT(MODEL.but(**change))
