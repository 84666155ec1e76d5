"""What is recorded of a backward pass: the last saved is the first released, and a gradient comes
with the last use of its parameter.
"""

from itertools import accumulate

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mathlib.meters import arrivals, saved
from mathlib.model import data, gpt


@pytest.fixture
def chain():
    """Three linear layers and the squares of what they give."""
    layers = [nn.Linear(4, 4, bias=False) for _ in range(3)]
    return nn.Sequential(*layers), {str(i): [layer] for i, layer in enumerate(layers)}


def names(events, what):
    return [event.name or event.part for event in events if event.what == what]


def test_the_last_saved_dies_first(chain):
    model, parts = chain
    x = torch.randn(2, 4)
    events = arrivals.follow(lambda: model(x).pow(2).sum(), model, parts)
    assert names(events, "saved") == ["0", "1", "2", "loss"]
    assert names(events, "released") == ["loss", "2", "1", "0"]
    assert names(events, "gradient") == ["2.weight", "1.weight", "0.weight"]
    turn = [event.what for event in events].index("turn")
    assert {event.what for event in events[:turn]} == {"saved"}
    assert "saved" not in {event.what for event in events[turn:]}
    assert all(e.size == 2 * 4 * 4 for e in events if e.what == "saved")


def test_a_parameter_used_twice_comes_with_its_first_use(chain):
    model, parts = chain
    model[2].weight = model[0].weight
    events = arrivals.follow(lambda: model(torch.randn(2, 4)).sum(), model, parts)
    assert names(events, "gradient") == ["1.weight", "0.weight"]
    assert [e.part for e in events if e.what == "gradient"] == ["1", "0"]
    told = [(e.what, e.name) for e in events if e.what in ("share", "gradient")]
    twice = ("share", "0.weight")
    assert told == [twice, ("gradient", "1.weight"), twice, ("gradient", "0.weight")]


def test_what_is_frozen_gets_nothing_and_keeps_nothing(chain):
    model, parts = chain
    model[0].weight.requires_grad_(False)
    events = arrivals.follow(lambda: model(torch.randn(2, 4)).sum(), model, parts)
    assert names(events, "gradient") == ["2.weight", "1.weight"]
    assert names(events, "saved") == ["1", "2"]


def test_a_tensor_that_two_operations_keep_counts_once_and_dies_with_the_last(chain):
    model, parts = chain

    def forward():
        y = model[0](torch.ones(2, 4))
        return (model[1](y) + model[2](y)).sum()

    events = arrivals.follow(forward, model, parts)
    assert names(events, "saved") == ["0", "1"]
    order = [event.name or event.what for event in events]
    assert order.index("1.weight") < len(order) - 2 and names(events, "released") == ["1", "0"]
    between = order[order.index("turn") : order.index("released")]
    assert {"1.weight", "2.weight"} & set(between), "it lived until the second had read it"


class Again(nn.Module):
    def __init__(self, inside, **how):
        super().__init__()
        self.inside, self.how = inside, how

    def forward(self, x):
        return checkpoint(self.inside, x, **self.how)


VARIANTS = [
    {"use_reentrant": True},
    {"use_reentrant": False},
    {"use_reentrant": False, "early_stop": False},
]


@pytest.mark.parametrize("how", VARIANTS, ids=["older", "newer", "newer, to its end"])
def test_what_is_saved_around_an_inner_part_is_the_outer_ones(chain, how):
    """A layer in a layer, recomputed: its input is kept around the inner one, and what the second
    run saves comes in backward, part by part.
    """
    model, _ = chain
    for i in (1, 2):
        model[i] = Again(nn.Sequential(model[i], nn.ReLU()), **how)
    parts = {"0": [model[0]], "1": [model[1], model[1].inside], "2": [model[2], model[2].inside]}
    events = arrivals.follow(lambda: model(torch.randn(2, 4)).sum(), model, parts)
    kept = [(e.what, e.part) for e in events if e.what in ("saved", "turn", "released")]
    turn = kept.index(("turn", "loss"))
    assert kept[:turn] == [("saved", part) for part in "012"], "inputs alone"
    after = [part for what, part in kept[turn:] if what == "saved"]
    assert after == ["2", "1"], "what relu saves, and not before backward has come there"
    assert kept.index(("released", "2")) < kept.index(("saved", "1"), turn)


def test_hooks_are_gone_afterwards(chain):
    model, parts = chain
    second_run = torch.utils.checkpoint._recomputation_hook
    arrivals.follow(lambda: model(torch.randn(2, 4)).sum(), model, parts)
    assert torch.utils.checkpoint._recomputation_hook is second_run
    assert not model[0]._forward_pre_hooks and not model[0]._forward_hooks
    assert not model[0].weight._post_accumulate_grad_hooks


@pytest.mark.parametrize("how", VARIANTS, ids=["older", "newer", "newer, to its end"])
def test_recomputed_blocks_of_a_gpt_are_never_alive_together(how):
    """At the fullest moment one block is there in full, and the inputs of the blocks below it."""
    model, batch = gpt.GPT(gpt.small(layers=3, vocab=57)), data.batch(2, gpt.small().context)
    parts = {f"block {i}": [block] for i, block in enumerate(model.blocks)}
    plain = arrivals.follow(lambda: model.loss(*batch), model, parts)
    one = sum(e.size for e in plain if e.what == "saved" and e.part == "block 2")
    model.blocks = nn.ModuleList(Again(block, **how) for block in model.blocks)
    parts = {f"block {i}": [block, block.inside] for i, block in enumerate(model.blocks)}
    events = arrivals.follow(lambda: model.loss(*batch), model, parts)
    turn = [event.what for event in events].index("turn")
    inputs = [e.size for e in events[:turn] if e.part in parts]
    signs = {"saved": 1, "released": -1}
    alive = [*accumulate(e.size * signs.get(e.what, 0) for e in events if e.part in parts)]
    assert alive[-1] == 0 and len(inputs) == 3 and max(alive) == 2 * inputs[0] + one
    again = [e.name.replace(".inside.", ".") for e in events if e.what == "gradient"]
    assert again == names(plain, "gradient")


def test_of_a_gpt_every_saved_byte_is_there_and_the_tied_table_comes_last():
    shape = gpt.small(vocab=len(data.vocabulary()))
    model, batch = gpt.GPT(shape), data.batch(2, shape.context)
    parts = {"tables": [model.tokens, model.positions], "blocks": [*model.blocks]}
    events = arrivals.follow(lambda: model.loss(*batch), model, parts)
    kept = [event.size for event in events if event.what == "saved"]
    assert sum(kept) == saved.saved_bytes(lambda: model.loss(*batch), model)
    assert sorted(kept) == sorted(event.size for event in events if event.what == "released")
    assert names(events, "share") == ["tokens.weight"] * 2, "of the head, and of the look-up"
    order = names(events, "gradient")
    assert order[-1] == "tokens.weight" and len(order) == len(list(model.parameters()))
    untied = gpt.GPT(shape.but(tied=False))
    events = arrivals.follow(lambda: untied.loss(*batch), untied, {"head": [untied.head]})
    assert names(events, "gradient")[0] == "head.weight" and not names(events, "share")
