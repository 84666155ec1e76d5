"""Ranks that are killed, under torchrun's elastic agent and played out."""

from functools import partial

import pytest

from mathlib import launch
from mathlib.parallel import checkpoint
from mathlib.trials.unequal_failures import (
    Death,
    Plan,
    by_launcher,
    drawn,
    held,
    lost,
    played_out,
    train,
    under_torchrun,
    uninterrupted,
    until_killed,
)


def test_a_killed_run_ends_with_the_losses_of_one_that_nobody_kills(tmp_path):
    plan = Plan(steps=5, every=2, deaths=[Death(3, "save", 1)])  # the chapter has two deaths
    whole = uninterrupted(plan, tmp_path / "whole")
    killed = under_torchrun(plan, tmp_path / "killed")
    assert whole.lives == [(0, 5)] and killed.lives == played_out(plan) == [(0, 4), (2, 5)]
    assert killed.losses == whole.losses and killed.alike
    assert len(set(whole.losses[0].values())) == 5


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_dies_between_its_file_and_the_checkpoints_name(rank, tmp_path):
    with pytest.raises(launch.RankError, match="SIGKILL"):
        plan = Plan(steps=2, every=2, deaths=[Death(1, "save", rank)])
        launch.run(train, 2, plan, tmp_path, 0, echo=False)
    (beside,) = (tmp_path / "saves").iterdir()
    assert beside.name == "step-00000002.writing"
    assert (beside / f"__{rank}_0.distcp").stat().st_size > 0


def test_a_save_counts_when_it_has_its_name():
    for moment, end, begin in [
        ("backward", 5, 3),
        ("step", 5, 3),
        ("save", 6, 3),  # of step 6, which has no name yet
        ("saved", 6, 6),
    ]:
        plan = Plan(steps=9, every=3, deaths=[Death(5, moment, 0)])
        assert played_out(plan) == [(0, end), (begin, 9)], moment
        assert lost(played_out(plan)) == end - begin
    late = Plan(steps=4, every=2, deaths=[Death(4, "step", 0), Death(0, "step", 0)])
    assert played_out(late) == [(0, 4)] and lost(played_out(late)) == 0


def test_deaths_are_drawn_between_steps_apart_on_average():
    plan = drawn(steps=10**6, every=10, deaths=4000, between=50, ranks=3, seed=0)
    assert abs(sum(death.after for death in plan.deaths) / 4000 - 49.5) < 3
    assert {death.rank for death in plan.deaths} == {0, 1, 2}
    a_death = lost(played_out(plan)) / 4000
    assert 4.5 < a_death < 5.5, "half of what lies between two saves"


def test_ranks_killed_at_random_moments_end_with_the_same_bits(tmp_path):
    """A sample; `python bench/run.py failures` kills a hundred."""
    plan = until_killed(deaths=6, every=5, between=6, ranks=2, seed=5)
    found = held(plan, tmp_path / "some")
    assert found.same and found.deaths == 6 and found.lost == found.played_out > 0


def test_a_run_that_forgets_the_optimizers_states_ends_with_others(tmp_path):
    def forgetful(plan, folder, life=None):
        resume = checkpoint.resume

        def weights_only(zero, path):
            found = resume(zero, path)
            zero.optimizer.state.clear()
            return found

        checkpoint.resume = weights_only
        train(plan, folder, life)

    plan = Plan(steps=6, every=2, deaths=[Death(3, "step", 1)])
    assert not held(plan, tmp_path / "forgetful", partial(by_launcher, train=forgetful)).same
