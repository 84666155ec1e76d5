"""Published runs, as the planner sees them."""

from mathlib.plan.published_runs import published, sweeps


def test_every_run_is_read_and_none_was_fitted() -> None:
    names = {run.name for run in sweeps()}
    assert len(names) == len(sweeps()) == 2512 and all(run.told for run in sweeps())
    assert not names & {run.name for run in published()[0]}
