"""Runs that go on with fewer ranks, or with a spare."""

import pytest

from mathlib.model import oracle
from mathlib.trials.unequal_spares import Life, Run, compared


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_fewer_ranks_train_what_one_process_trains_and_a_spare_the_same_bits(optimizer, tmp_path):
    run = Run([Life(3, dies=3), Life(2, dies=4), Life(3)], optimizer)
    three, two, back = compared(run, tmp_path)
    assert (three[:4], two[:4], back[:4]) == ((3, 0, 3, 4), (2, 2, 4, 6), (3, 4, 6, 4))
    assert max(three.far, two.far, back.far) < oracle.EQUAL
    assert three.same_bits and not two.same_bits, "sums of two have another order than of three"


def test_a_spare_goes_on_with_the_same_bits(tmp_path):
    first, spare = compared(Run([Life(3, dies=3), Life(3)]), tmp_path)
    assert first.same_bits and spare.same_bits and (spare.begin, spare.end) == (2, 6)


def test_a_batch_that_is_not_kept_is_another_run(tmp_path):
    _, fewer = compared(Run([Life(3, dies=3), Life(2)], "SGD", kept=False), tmp_path)
    assert fewer.far > 1e-4
