"""Published sweeps are read as they stand, and the planner is held against them."""

import ast
import re
import sys
from pathlib import Path
from statistics import median

import pytest
from pages import code_cells
from published_runs import published, sweeps

from mathlib.checks import InputError
from mathlib.plan.sweeps import find_sweep, names

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from calibrate import fitted_to

PLANNING = Path(__file__).resolve().parents[2] / "chapters" / "14_planning.ipynb"


def test_every_layout_fills_its_cards_and_its_batch() -> None:
    for name in names():
        sweep = find_sweep(name)
        for trial in sweep.trials:
            assert trial.layout.world == sweep.devices, trial.name
            assert trial.layout.sequences == sweep.sequences, trial.name
        times = [trial.seconds for trial in sweep.timed]
        assert times == sorted(times) and len(times) < len(sweep.trials)


def test_every_trial_of_the_spreadsheets_is_there_once() -> None:
    """274 with FlashAttention 2, but the one that failed for another reason than its memory."""
    trials = [trial for name in names() for trial in find_sweep(name).trials]
    assert len(trials) == len({trial.name for trial in trials}) == 273
    assert sum(trial.ran for trial in trials) == 123
    by_number = {trial.name.rpartition("-")[2]: trial for trial in find_sweep("13b-8k-64").trials}
    for died in ("131702", "131879"):
        lay = by_number[died].layout
        assert (lay.tensor, lay.pipeline, lay.micro_batch) == (2, 1, 1)
        assert not by_number[died].ran
    assert find_sweep("13b-2k-64").timed[0].seconds == 26.5395


def test_what_the_constants_were_fitted_to_is_told() -> None:
    known = {run.name: run for run in published()[0]}
    rest = {run.name: run for run in sweeps()}
    trials = [trial for name in names() for trial in find_sweep(name).trials]
    both = [trial for trial in trials if trial.name in known]
    assert len(both) > 50
    for trial in trials:
        run = known.get(trial.name) or rest[trial.name]
        assert (trial.layout, trial.seconds) == (run.layout, run.seconds), trial.name
        assert trial.program == run.program
        assert trial.fitted == (trial.name in known and fitted_to(run)), trial.name


def test_the_planner_beats_a_guess_on_runs_it_was_not_fitted_to() -> None:
    errors, regrets = [], []
    for name in names():
        sweep = find_sweep(name)
        guess = {trial.name: sweep.predicted(trial) for trial in sweep.timed}
        errors += [abs(guess[t.name] / t.seconds - 1) for t in sweep.timed if not t.fitted]
        chosen = min(sweep.timed, key=lambda t: guess[t.name])
        regrets.append(chosen.seconds / sweep.timed[0].seconds - 1)
    assert len(errors) > 100 and median(errors) < 0.05
    assert max(regrets) < 0.01  # of what ran, the quickest each time


def test_a_careful_choice_runs() -> None:
    """Of everything that was tried, the one that is predicted to be the quickest of those with a
    chance below a tenth of running out of memory: it ran in all six, a quarter slower at worst.
    """
    lost = []
    for name in names():
        sweep = find_sweep(name)
        safe = [trial for trial in sweep.trials if sweep.risk(trial) < 0.1]
        chosen = min(safe, key=sweep.predicted)
        assert chosen.ran, chosen.name
        lost.append(chosen.seconds / sweep.timed[0].seconds - 1)
    assert median(lost) < 0.06 and max(lost) < 0.26


def test_a_sweep_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="name = '70b': expected one of 13b-2k-32"):
        find_sweep("70b")


def test_the_four_experiments_that_the_chapter_adds_are_those_of_the_spreadsheets() -> None:
    """Cards a copy and seconds: the quickest, the fewest without recomputation, the fewest."""
    cells = "\n".join(cell.source for cell in code_cells(PLANNING))
    found = re.search(r"^WIDER = (\{.*?^\})", cells, re.MULTILINE | re.DOTALL)
    assert found
    runs = {run.name: run for run in (*published()[0], *sweeps()) if run.name.startswith("aa23-")}
    seen = {}
    for devices, tokens, layers in (
        (128, 8192, 40),
        (256, 2048, 60),
        (128, 8192, 60),
        (128, 2048, 80),
    ):
        ran = sorted(
            (run.seconds, run.layout.tensor * run.layout.pipeline, run.layout.recompute == "none")
            for run in runs.values()
            if (run.layout.world, run.tokens, run.model.layers) == (devices, tokens, layers)
            and run.seconds
        )
        plain = [(cards, seconds) for seconds, cards, once in ran if once]
        every = [(cards, seconds) for seconds, cards, _ in ran]
        size = {40: "13B", 60: "30B", 80: "65B"}[layers]
        name = f"LLaMA {size}, {devices} A100, {tokens:,} tokens"
        seen[name] = (every[0], min(plain), min(every))
    assert ast.literal_eval(found[1]) == seen
