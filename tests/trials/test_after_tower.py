"""The tower's run of the chapter: equal to one process, and it can say no."""

from mathlib.model import oracle
from mathlib.trials import after_tower as tower


def test_both_cuts_train_what_one_process_trains_with_the_bytes_of_the_formula():
    for split in tower.cuts().values():
        found = tower.run(split)
        assert found.far < oracle.EQUAL and found.program == found.told
    best, inside = tower.cuts().values()
    assert best[0] >= tower.SMALL.layers > inside[0]
    assert tower.run(best, swapped=True).far > 1e-4
