"""Replicas that are killed while the others train on, beside one process."""

import pytest

from mathlib.model import oracle
from mathlib.trials.unequal_quorum import SEQUENCES, Death, Mortal, Run, compared


@pytest.mark.parametrize(("moment", "optimizer"), [("sum", "SGD"), ("backward", "Adam")])
def test_a_death_loses_the_dead_ones_share_of_a_step_and_nothing_else(moment, optimizer):
    run = Run(4, [Death(1, moment, 1)], optimizer)
    found = compared(run)
    assert found.lost == [(1, 1)] and found.alike and found.far < oracle.EQUAL
    assert found.tokens - found.counted == SEQUENCES[1] * 8


def test_who_dies_before_its_vote_is_not_counted_and_after_it_is():
    before = compared(Run(3, [Death(1, "vote", 2)], patience=5))
    assert (1, 2) in before.lost and before.alike and before.far < oracle.EQUAL
    after = compared(Run(4, [Death(1, "voted", 2)]))
    assert after.lost == [(2, 2)] and after.alike and after.far < oracle.EQUAL


def test_without_the_dead_one_the_others_go_on():
    found = compared(Run(4, [Death(1, "sum", 0)], "SGD", patience=3, again=False))
    assert found.lost == [(1, 0), (2, 0), (3, 0)] and found.alike and found.far < oracle.EQUAL


class Unhealed(Mortal):
    def heal(self, group):
        mine = [p.detach().clone() for p in self.weights]
        begun = self.store.check(["begun"])
        super().heal(group)
        for p, own in zip(self.weights, mine, strict=True):
            if begun:
                p.data = own


class Unweighted(Mortal):
    def step(self, tokens=1):
        return {me: 8 * t * SEQUENCES[int(me[0])] for me, t in super().step(tokens > 0).items()}


@pytest.mark.parametrize("kind", [Unhealed, Unweighted])
def test_without_healing_or_weights_it_is_another_run(kind):
    found = compared(Run(3, [Death(1, "backward", 1)], "SGD"), kind)
    assert found.far > 1e-4


class Deaf(Mortal):
    """One replica loses the first sum of step 1."""

    heard = False

    def connect(self, key, names):
        group = super().connect(key, names)
        if (self.me[0], self.steps, self.heard) == ("1", 1, False):
            self.heard = True
            allreduce = group.allreduce

            def lost(row):
                allreduce(row).wait()
                raise RuntimeError("lost")

            group.allreduce = lost
        return group


class DeafAndHasty(Deaf):
    """Without the vote."""

    def agreed(self, key, value):
        found = super().agreed(key, value)
        return "commit" if key.endswith("end") else found


def test_a_step_that_one_could_not_sum_is_taken_by_nobody():
    found = compared(Run(3, [], "SGD"), Deaf)
    assert found.lost == [] and found.alike and found.far < oracle.EQUAL
    found = compared(Run(3, [], "SGD", patience=5), DeafAndHasty)
    assert found.lost == [(2, 1)], "the one that was left behind, though nobody died"
