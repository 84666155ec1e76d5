"""RWKV-4: all tokens at once as one by one, transformers' own class beside it, constant bytes."""

import pytest
import torch

from mathlib.memory import inference
from mathlib.model import gpt
from mathlib.model.recurrence import Recurrent, all_at_once, fresh, one_more

SHAPE = gpt.small(layers=3, width=16, vocab=29, positions="none", ffn_width=64)
TOKENS = torch.randint(29, (2, 30), generator=torch.Generator().manual_seed(0))


def strong():
    built = Recurrent(SHAPE)
    with torch.no_grad():
        for weight in built.parameters():
            if weight.dim() > 1 and weight.shape[0] > 3:
                weight.mul_(10)
    return built


def by_steps(built, tokens):
    states, logits = built.start(len(tokens)), []
    for column in tokens.unbind(1):
        logits.append(built.step(column, states))
    return torch.stack(logits, 1), states


def test_one_by_one_as_all_at_once():
    built = strong()
    found, _ = by_steps(built, TOKENS)
    with torch.no_grad():
        wanted = built(TOKENS)
    assert torch.allclose(found, wanted, atol=1e-4) and wanted.std() > 0.1
    states = built.start(2)
    for column in TOKENS.unbind(1):
        last = built.step(column, states)
        states = built.start(2)
    assert not torch.allclose(last, wanted[:, -1], atol=1e-2), "the state carries the past"


def test_the_two_sums_as_one_softmax():
    draw = torch.Generator().manual_seed(3)
    k, v = 30 * torch.randn(2, 1, 12, 4, generator=draw)  # e^90 would be out of range
    decay, bonus = torch.rand(4, generator=draw), torch.randn(4, generator=draw)
    state = fresh(1, 4)
    each = zip(k.unbind(1), v.unbind(1), strict=True)
    found = torch.stack([one_more(*one, decay, bonus, state) for one in each], 1)
    assert torch.allclose(found, all_at_once(k, v, decay, bonus), rtol=1e-4)


def test_the_state_is_the_formula_at_any_length():
    built = strong()
    for length in (1, 7, 30):
        _, states = by_steps(built, TOKENS[:, :length])
        wanted = inference.recurrent_state(SHAPE, sequences=2)
        assert sum(state.nbytes for state in states) == wanted.total == 4 * 5 * 3 * 2 * 16


def theirs(built):
    """The same weights in transformers' class."""
    transformers = pytest.importorskip("transformers")
    config = transformers.RwkvConfig(
        vocab_size=29, context_length=64, hidden_size=16, num_hidden_layers=3,
        attention_hidden_size=16, intermediate_size=64, rescale_every=0,
    )  # fmt: skip
    model = transformers.RwkvForCausalLM(config).eval()
    mixes = {"time": ("key", "value", "receptance"), "channel": ("key", "receptance")}
    with torch.no_grad():
        model.rwkv.embeddings.weight.copy_(built.tokens.weight)
        model.head.weight.copy_(built.head.weight)
        for ours, block in zip(built.blocks, model.rwkv.blocks, strict=True):
            time, channel = block.attention, block.feed_forward
            time.time_decay.copy_(ours.time.decay)
            time.time_first.copy_(ours.time.bonus)
            pairs = [(ours.time, time, ("key", "value", "receptance"))]
            pairs += [(ours.channel, channel, ("key", "value", "receptance"))]
            time.output.weight.copy_(ours.time.out.weight)
            for one, other, names in pairs:
                for name in names:
                    getattr(other, name).weight.copy_(getattr(one, name).weight)
            for one, other, kind in ((ours.time, time, "time"), (ours.channel, channel, "channel")):
                for name, mix in zip(mixes[kind], one.mix, strict=True):
                    getattr(other, f"time_mix_{name}").copy_(mix)
    return model


def test_transformers_own_class_says_the_same():
    built = strong()
    model = theirs(built)
    with torch.no_grad():
        whole = model(TOKENS, use_cache=True)
        wanted = built(TOKENS)
    assert torch.allclose(whole.logits, wanted, atol=1e-4)
    held = sum(tensor.untyped_storage().nbytes() for tensor in whole.state)
    assert held == inference.recurrent_state(SHAPE, sequences=2).total


def test_it_learns():
    built = Recurrent(SHAPE)
    optimizer = torch.optim.Adam(built.parameters(), lr=1e-2)
    for number in range(25):
        loss = torch.nn.functional.cross_entropy(
            built(TOKENS[:, :-1]).flatten(0, 1), TOKENS[:, 1:].flatten()
        )
        if not number:
            first = loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert first > 3 and loss < 1.5
