"""HSDP passes the oracle that plain MiCS passes, and meets its replicas when it is told to."""

from mathlib.model import oracle
from mathlib.trials import mics_torch


def test_hsdp_sums_in_every_backward_until_it_is_told():
    (untold, twice, _), (told, once, _) = mics_torch.calls(m=2)
    assert told == [[9, 5, 0], [9, 5, 5]] and untold == [[9, 5, 5]] * 2 and twice == 2 * once


def test_all_but_the_last_are_the_model_of_one_process():
    *alike, apart = mics_torch.against_one_process().values()
    assert len(alike) == 4 and max(map(max, alike)) < oracle.EQUAL < 1e-4 < min(apart)
