"""HSDP meets its replicas when it is told to; chapter and trial hold its weights by the oracle."""

from mathlib.trials import mics_torch


def test_hsdp_sums_in_every_backward_until_it_is_told():
    (untold, twice, _), (told, once, _) = mics_torch.calls(m=2)
    assert told == [[9, 5, 0], [9, 5, 5]] and untold == [[9, 5, 5]] * 2 and twice == 2 * once
