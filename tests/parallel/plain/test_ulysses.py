"""Plain Ulysses by the oracle of one process, and by its bytes."""

import pytest
import sequence_cases as cases
import torch

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.plain import ulysses
from mathlib.traffic import volumes


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    model = cases.shape(ranks)
    assert not cases.apart(ranks, [("ulysses", model, o) for o in oracle.OPTIMIZERS])


def test_where_heads_stay_apart_or_come_back_wrong_they_are_apart():
    exchange, model = ulysses.all_to_all, cases.shape(2)

    def silent():  # as when the attention that is patched is never called
        ulysses.Ulysses.attention = lambda self, *heads: ulysses.plain_attention(*heads)
        return cases.by_ranks("ulysses", model, steps=1)

    def one_way():  # gradients that stay where they are
        ulysses.AllToAll.backward = staticmethod(
            lambda ctx, g: (torch.cat(g.chunk(2, ctx.back[0]), ctx.back[1]), None, None, None)
        )
        return cases.by_ranks("ulysses", model, steps=1)

    def swapped():
        ulysses.all_to_all = lambda x, split, join, group: exchange(x, split, join, group).flip(
            join
        )
        return cases.by_ranks("ulysses", model, steps=1)

    (wanted,) = cases.by_one(model, steps=1)
    for broken in (silent, one_way, swapped):
        found = [history[0] for history in launch.run(broken, 2)]
        assert oracle.distance(found, wanted) > 1e-6, broken


@pytest.mark.parametrize("ranks", [2, 3])
def test_bytes_are_those_of_the_formula_and_of_the_system(ranks):
    model, kinds = cases.shape(ranks), (torch.float64, torch.bfloat16)
    for found in launch.run(lambda: [cases.sent("ulysses", model, kind) for kind in kinds], ranks):
        for kind, (program, system) in zip(kinds, found, strict=True):
            wanted = volumes.context_parallel(
                model,
                context=ranks,
                method="all-to-all",
                micro_batch=cases.BATCH,
                bytes_per_element=kind.itemsize,
            )
            assert program == system == pytest.approx(wanted.total, rel=1e-12)
