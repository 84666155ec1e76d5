"""The plain step along three axes by the oracle of one process, and equal to the sturdy class."""

from unittest import mock

import together_cases as cases
import torch
import torch.distributed as dist
from patience import PATIENCE

from mathlib import launch
from mathlib.layout import Layout
from mathlib.model import oracle
from mathlib.parallel.plain.together import Together

CASES = [  # stages, replicas, tensor ranks, model, optimizer, bound of the norm
    (2, 2, 2, "gpt", "SGD", 0.05),
    (2, 2, 2, "gpt", "Adam", float("inf")),
    (4, 1, 2, "deep", "SGD", 0.05),
    (1, 2, 4, "gpt", "Adam", 0.05),
]


def some_in_each(step):
    """A batch in each of whose micro-batches some tokens count."""
    tokens, targets = cases.tokens(step)
    return tokens, targets.where(torch.arange(cases.TOKENS) > 0, 3)


def trained(case, steps, wanted, stepped=None):
    """How far losses and this rank's words are from one process; and the words themselves."""
    p, d, t, name, optimizer, clip = case
    model = cases.whole(name)
    way = Together(model, oracle.OPTIMIZERS[optimizer], p, d, t, clip=clip)
    far = []
    for step in range(steps):
        with mock.patch.object(Together, *stepped) if stepped else mock.patch.dict({}):
            loss = way.step(*some_in_each(step))
        far.append(abs(loss - wanted[step][0]))
        for n, p in way.model.named_parameters():
            if any(p is q for flat in way.flats.values() for q in flat.parameters):
                far.append(own(p, wanted[step][1][n], way).item())
    return torch.tensor(far).max().item()


def own(p, whole, way):
    """How far a rank's part is from the same part of the whole, wherever it begins."""
    r, t = dist.get_rank(way.tensor), dist.get_world_size(way.tensor)
    for dim in range(whole.dim()):
        if p.shape[dim] != whole.shape[dim]:
            if len(whole) == 61:
                part = whole[61 * r // t : 61 * (r + 1) // t]
            elif whole.shape[0] == 48:
                part = whole.unflatten(0, (3, t, -1))[:, r].flatten(0, 1)
            else:
                part = whole.chunk(t, dim)[r]
            return (p - part).abs().max().detach()
    return (p - whole).abs().max().detach()


def by_one(name, optimizer, clip):
    model, found = cases.whole(name), []
    made = oracle.OPTIMIZERS[optimizer](model.parameters())
    for step in range(cases.STEPS):
        loss = oracle.step(model, made, *some_in_each(step), clip=clip)
        found.append((loss, {n: p.detach().clone() for n, p in model.named_parameters()}))
    return found


def sturdy(wanted):
    """The same step by the class."""
    way = cases.make(("gpt", {**LAYOUT, "zero": 1}, "SGD", {"clip": 0.05}))
    loss = way.step(*way.my_sequences(*some_in_each(0)))
    return max(abs(loss - wanted[0][0]), cases.difference(way, wanted[0][1])[0].item())


LAYOUT = {"pipeline": 2, "data": 2, "tensor": 2, "micro_batches": 2}
FAULTS = {"add_up_table": lambda self: None, "bound_norm": lambda self: None}


def test_three_axes_are_one_process_after_every_step_and_apart_without_a_part():
    assert Layout(**LAYOUT).world == 8
    wanted = [by_one(*case[3:]) for case in CASES]

    def run():
        far = [trained(case, cases.STEPS, w) for case, w in zip(CASES, wanted, strict=True)]
        off = [trained(CASES[0], 1, wanted[0], fault) for fault in FAULTS.items()]
        return [*far, sturdy(wanted[0])], off

    found = launch.run(run, 8, timeout=PATIENCE)
    assert torch.tensor([far for far, _ in found]).max() < oracle.EQUAL
    assert torch.tensor([off for _, off in found]).amax(0).min() > 1e-6
