"""The plain files run: the model of one process, and faults that are seen."""

import pytest

from mathlib.model import oracle
from mathlib.trials import tensor


def test_ranks_train_the_model_of_one_process_and_without_a_sum_another():
    whole = [(way, "Adam", "") for way in tensor.WAYS]
    assert max(tensor.distances(2, whole)) < oracle.EQUAL
    broken = [("tensor", "SGD", what) for what in tensor.BROKEN if what]
    assert len(broken) == 2 and min(tensor.distances(2, broken)) > 1e-3


def test_norms_that_nobody_sums_leave_the_loss_and_all_other_gradients_alone():
    assert max(tensor.norms(2, summed=True)) < oracle.EQUAL
    loss, norms, others = tensor.norms(2, summed=False)
    assert max(loss, others) < oracle.EQUAL < 1e-4 < norms


def test_words_that_nobody_has_change_the_loss():
    one, cut, lost = tensor.last_words(2)
    assert cut == pytest.approx(one, abs=1e-9) and abs(lost - one) > 0.05


def test_every_matrix_is_cut_and_nothing_is_left_out():
    ranks = tensor.all_shards(4)
    sizes = {name: [rank[name] for rank in ranks] for name in ranks[0]}
    assert sum(rows for rows, _ in sizes["attention.qkv.weight"]) == 3 * tensor.SHAPE.width
    assert sum(columns for _, columns in sizes["mlp.down.weight"]) == tensor.SHAPE.ffn_width


def test_without_what_is_gathered_sequence_parallelism_keeps_its_part_of_one_process():
    whole, split = tensor.formula(1), tensor.formula(4, split=True)
    assert tensor.gathered(1) == 0 and tensor.gathered(4) == 17_280
    assert split / whole == pytest.approx(1 / 4, rel=0.01) and tensor.formula(4) > whole / 4
