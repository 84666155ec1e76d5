"""Unequal parts of the batch and of the states, by the oracle of one process."""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain.unequal import Unequal

SHAPE = gpt.small(width=16, context=8, vocab=len(data.vocabulary()))
P = sum(p.numel() for p in gpt.GPT(SHAPE).parameters())
STEPS, B = 3, 12
CASES = [
    ([8, 4], [1000, P - 1000]),
    ([7, 5], [P, 0]),
    ([5, 0, 7], [100, P - 300, 200]),
]


def batches():
    return [data.batch(B, SHAPE.context, step) for step in range(STEPS)]


def by_ranks(optimizer, sequences, states):
    """Weights after every step, numbers of each state, bytes sent in the last step by both
    counts.
    """
    model = gpt.GPT(SHAPE, seed=dist.get_rank()).double()
    way, history = Unequal(model, oracle.OPTIMIZERS[optimizer], sequences, states), []
    for batch in batches():
        with wire.sent() as sent:
            way.loss(*batch).backward()
            way.step()
        history.append(oracle.flat_weights(model).clone())
    kept = [s.numel() for s in way.optimizer.state[way.own].values() if s.dim()]
    return history, kept, sent.program, sent.system


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_weights_after_every_step_are_those_of_one_process(optimizer):
    for sequences, states in CASES:
        model = gpt.GPT(SHAPE, seed=0).double()
        made = oracle.OPTIMIZERS[optimizer](list(model.parameters()))
        wanted = torch.cat(oracle.one_process(model, batches(), made, oracle.loss))
        found = launch.run(by_ranks, len(sequences), optimizer, sequences, states)
        N, sent = len(sequences), 0
        for rank, (history, kept, program, system) in enumerate(found):
            assert oracle.distance([torch.cat(history)], wanted) < oracle.EQUAL, sequences
            assert optimizer == "SGD" or set(kept) == {states[rank]}
            assert program == system == 8 * (2 * P - states[rank] - states[(rank + 1) % N])
            sent += program
        assert sent == pytest.approx(2 * 8 * P * (N - 1)), "a ring"


def test_without_the_weights_it_is_another_step(monkeypatch):
    def equal(sequences, states):
        Unequal.weight = property(lambda self: 1.0, lambda self, weight: None)
        return by_ranks("SGD", sequences, states)

    model = gpt.GPT(SHAPE, seed=0).double()
    made = oracle.OPTIMIZERS["SGD"](list(model.parameters()))
    wanted = torch.cat(oracle.one_process(model, batches(), made, oracle.loss))
    (history, *_), *_ = launch.run(equal, 2, *CASES[0])
    assert oracle.distance([torch.cat(history)], wanted) > 1e-6
