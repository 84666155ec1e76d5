"""Plain MiCS by the oracle of one process for every degree, and by its bytes."""

from itertools import cycle

import pytest
import sharding

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.plain import mics
from mathlib.traffic import mesh


def case(shard, optimizer="SGD"):
    told = {"stage": "plain mics", "problem": "gpt", "shard": shard}
    return told | {"optimizer": optimizer, "parts": 1 + shard % 2}


@pytest.mark.parametrize("ranks", [2, 3, 4, 6])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    optimizers = cycle(oracle.OPTIMIZERS)
    cases = [case(shard, next(optimizers)) for shard in mesh.valid_shards(world=ranks)]
    assert not sharding.apart(ranks, cases)


def test_without_the_sum_or_the_start_of_replicas_or_in_wrong_groups_they_are_apart():
    def silent():
        mics.Mics.step = mics.Zero.step
        return sharding.by_ranks(**case(2))

    def anywhere():
        mics.dist.broadcast = lambda *_, **__: None
        return sharding.by_ranks(**case(2))

    def swapped():
        groups = mics.groups
        mics.groups = lambda shard: groups(shard)[:1] * 2
        return sharding.by_ranks(**case(2))

    *_, wanted = sharding.by_one("gpt", "SGD")
    for broken in (silent, anywhere, swapped):
        found = launch.run(broken, 4)
        assert not oracle.distance([history[-1] for history in found], wanted) <= 1e-6, broken


def test_bytes_are_those_of_the_formula_and_of_the_sturdy_class():
    parts = 2

    def run():
        ways = [(way, shard) for way in ("plain mics", "mics") for shard in (1, 2, 4)]
        found = {given: sharding.sent(given[0], parts, given[1]) for given in ways}
        assert all(s["system"] == s["messages alone"] for (w, _), s in found.items() if w != "mics")
        return {given: sent["program"] for given, sent in found.items()}

    for found in launch.run(run, 4):
        for (way, shard), program in found.items():
            wanted = sharding.predicted(3, 4, parts, shard)
            assert program == pytest.approx(wanted, rel=1e-12), (way, shard)
