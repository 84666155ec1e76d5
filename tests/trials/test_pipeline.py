"""The plain pipeline as chapter and trial run it: the oracle, clocks, the rule of four."""

import pytest

from mathlib.model import oracle
from mathlib.parallel.plain.pipeline import Pipeline
from mathlib.schedule import bubble
from mathlib.schedule.simulate import simulate
from mathlib.trials import pipeline


def last_first(p, s, m):
    """Fill and drain with its backwards in the order of a stack."""
    return [("F", i) for i in range(m)] + [("B", i) for i in reversed(range(m))]


def test_a_readers_lists_train_the_model_of_one_process_and_broken_ones_another():
    cases = [(Pipeline, pipeline.from_lists(last_first), name) for name in oracle.OPTIMIZERS]
    assert max(pipeline.distances(cases)) < oracle.EQUAL
    kinds = {"not divided": pipeline.NotDivided, "silent": pipeline.Silent}
    assert min(map(min, pipeline.apart(pipeline.named("1f1b"), kinds).values())) > 1e-3


def test_clocks_agree_with_equations_and_with_the_simulation():
    assert all(equation == found for equation, found in pipeline.bubbles().values())
    for what, totals in pipeline.lengths().items():
        orders = pipeline.ORDERS.values()
        assert totals == [simulate(one, pipeline.TIMES[what]).total for one in orders]


@pytest.mark.parametrize("p", [1, 2, 5])
def test_the_long_run_of_a_pipeline_is_its_pace(p):
    for message in (0, 0.5, 3):
        law = bubble.pace(stages=p, message=message, ahead=2)
        assert pipeline.pace(p, message, 2) == pytest.approx(law)
    assert all(law == pytest.approx(found) for law, found in pipeline.paces().values())


@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 2), (6, 24)])
def test_early_recomputation_stage_by_stage_is_the_equation(p, m):
    for F, B in ((1, 2), (2, 1)):
        law = bubble.recomputed_early(stages=p, micro_batches=m, forward=F, backward=B)
        assert pipeline.early(p, m, F, B) == pytest.approx(law)


def test_what_gpipes_tables_miss_of_a_fourfold_gain():
    """6.3 over 1.8 is 3.5 of 4, an eighth less; 3.3 is 17.5% less."""
    (tpus, gpus) = pipeline.lost().values()
    assert tpus[0] < 1 / 8 < tpus[1] and gpus == pytest.approx((1 - 3.35 / 4, 1 - 3.25 / 4))


def test_a_batch_that_is_cut_is_as_much_work():
    whole, cut = pipeline.whole_and_cut().values()
    assert list(whole.busy) == list(cut.busy) and (whole.total, cut.total) == (96, 33)
