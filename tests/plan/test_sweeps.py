"""Published sweeps are read as they stand, and the planner is held against them."""

import sys
from pathlib import Path
from statistics import median

import pytest
from published_runs import published

from mathlib.checks import InputError
from mathlib.plan.sweeps import find_sweep, names

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from calibrate import fitted_to


def test_every_layout_fills_its_cards_and_its_batch() -> None:
    for name in names():
        sweep = find_sweep(name)
        for trial in sweep.trials:
            assert trial.layout.world == sweep.devices, trial.name
            assert trial.layout.sequences == sweep.sequences, trial.name
        times = [trial.seconds for trial in sweep.timed]
        assert times == sorted(times) and len(times) < len(sweep.trials)


def test_what_the_constants_were_fitted_to_is_told() -> None:
    known = {run.name: run for run in published()[0]}
    trials = [trial for name in names() for trial in find_sweep(name).trials]
    both = [trial for trial in trials if trial.name in known]
    assert len(both) > 50
    for trial in both:
        run = known[trial.name]
        assert (trial.layout, trial.seconds) == (run.layout, run.seconds), trial.name
        assert trial.fitted == fitted_to(run), trial.name
    assert not any(trial.fitted for trial in trials if trial.name not in known)


def test_the_planner_beats_a_guess_on_runs_it_was_not_fitted_to() -> None:
    errors, regrets = [], []
    for name in names():
        sweep = find_sweep(name)
        guess = {trial.name: sweep.predicted(trial) for trial in sweep.timed}
        errors += [abs(guess[t.name] / t.seconds - 1) for t in sweep.timed if not t.fitted]
        chosen = min(sweep.timed, key=lambda t: guess[t.name])
        regrets.append(chosen.seconds / sweep.timed[0].seconds - 1)
    assert len(errors) > 50 and median(errors) < 0.08
    assert sorted(regrets)[3] < 0.02 and max(regrets) < 0.2


def test_a_sweep_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="name = '70b': expected one of 13b-2k-32"):
        find_sweep("70b")
