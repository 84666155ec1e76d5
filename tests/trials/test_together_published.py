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


def test_the_best_zero_beside_the_best_of_the_others_by_source():
    found = study.zero_beside_others()
    assert sum(one.sets for one in found.values()) == 71
    for one in found.values():
        assert one.longer <= one.most and 0 <= one.quicker <= one.sets
    known = {d.source: [] for d in study.all_decided() if d.zero is not None}
    for one in study.all_decided():
        if one.zero is not None:
            known[one.source].append(one.zero)
    for source, zero in known.items():  # hindsight over all is 0 where ZeRO is quicker
        assert sum(z == 0 for z in zero) == found[source].quicker
        assert max(zero) == max(0, found[source].most)


def test_sets_without_fitted_constants_are_told_apart():
    new = [same for same in study.sets() if not study.fitted(same)]
    assert len(new) == 65 and max(same[0].layout.world for same in new) == 8
    lost = study.summary(study.decided(same) for same in new)[study.WAYS[0]][1]
    assert f"{lost:.0%}" == "2%" and len({same[0].source for same in new}) == 1


def test_the_path_loses_little_in_small_sets_and_much_in_large_ones():
    found = study.by_size()
    assert [len(sets) for sets in found.values()] == [106, 27, 133]
    small, large, every = (study.summary(sets)[study.WAYS[0]] for sets in found.values())
    assert small[0] == 0 and small[1] < 0.03 < 0.15 < large[0]
    assert f"{every[1]:.0%}" == "16%"
    dearest = study.dearest(2)
    assert {one.source for one in dearest} == {"playbook"}
    assert all("512 h100" in one.name and one.lost[study.WAYS[0]] > 5 for one in dearest)
    assert study.twice_as_many()[512] > 13 * study.twice_as_many()[256]


def test_what_others_paid():
    """InternLM's tensor parallelism, Aleph Alpha's ZeRO and what ran out of memory."""
    intern = [d for d in study.all_decided() if d.source == "internevo" and d.zero == 0]
    lost = [one.lost[study.WAYS[0]] for one in intern]
    assert len(intern) == 5 and {one.best for one in intern} == {"data parallelism"}
    assert 0 < min(lost) < 0.02 and 0.18 < max(lost) < 0.2
    (long,) = [d for d in study.all_decided() if d.name == "LLaMA 13B, 8192 tokens, 128 a100-80gb"]
    assert long.best == "a pipeline" and 0.5 < long.zero < 0.55
    told = study.outcomes()
    assert told["data parallelism"] == (10, 50) and told["a pipeline"] == (165, 149)
