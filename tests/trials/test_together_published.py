"""What it would have cost to decide by levels, on published sets of layouts."""

from mathlib.plan.simplest import LEVELS, level
from mathlib.trials import together_published as study


def test_sets_differ_in_nothing_but_layouts_and_leave_a_choice():
    for same in study.sets():
        assert len({run.same_but_layout for run in same}) == 1
        ended = [run for run in same if run.fits]
        assert len(ended) >= study.LEAST and len({level(run.layout) for run in ended}) > 1
    assert len(study.sets()) == 133


def test_the_simplest_that_is_nearly_the_quickest_loses_no_more_than_the_quickest_predicted():
    path, planner, _ = study.WAYS
    told = study.summary(study.all_decided())
    assert told[path][0] == told[planner][0] == 0, "half of the sets lose nothing"
    assert told[path][1] <= told[planner][1]
    assert told["the simplest that fits"][1] > told[path][1] + 0.1


def test_where_zero_ended_the_path_loses_less_than_its_best_layout_with_hindsight():
    known = [one for one in study.all_decided() if one.zero is not None]
    told = study.summary(known)
    assert len(known) == 71
    assert told[study.WAYS[0]][1] < 0.7 * told["the best ZeRO, with hindsight"][1]


def test_nothing_that_it_takes_ran_out_of_memory():
    assert all(max(one.lost.values()) < float("inf") for one in study.all_decided())


def test_whoever_is_blind_for_memory_takes_some_that_did(monkeypatch):
    monkeypatch.setattr(study, "RISK", 2.0)
    lost = [study.decided(same).lost[study.WAYS[0]] for same in study.sets()]
    assert sum(one == float("inf") for one in lost) > 3


def test_outcomes_count_every_layout_of_sets_with_failures_once():
    told = study.outcomes()
    assert list(told) == list(LEVELS)
    sets = [same for same in study.sets() if not all(run.fits for run in same)]
    assert sum(map(sum, told.values())) == sum(map(len, sets))
    assert sum(failed for _, failed in told.values()) == sum(o.failed for o in study.all_decided())
