"""Sending less, by hand and at its limits; bytes beside runs are in tests/parallel."""

import math

import pytest

from mathlib.checks import InputError
from mathlib.traffic import comm, compressed


def test_by_hand():
    assert compressed.coded(numbers=512, ranks=2, bits=8) == 512 + 8
    assert compressed.coded(numbers=512, ranks=2, bits=1, block=64) == 64 + 32
    assert compressed.coded(numbers=512, ranks=4, bits=16, block=None) == 1.5 * 1024
    assert compressed.largest(kept=10, ranks=5) == 320
    assert compressed.low_rank(shapes=[(6, 4), (2, 3)], rank=3, ranks=2) == 4 * (30 + 10)
    assert compressed.local_steps(payload=100, ranks=2, steps=5, fragments=2) == {
        "on average": 20,
        "at most": 50,
    }
    assert compressed.break_even(full=100, less=20, seconds=4) == 20
    assert compressed.utilization(compute=1, sending=3) == 0.25
    assert compressed.utilization(compute=1, sending=3, steps=3) == 0.5


def test_all_numbers_in_full_is_a_ring_and_top_k_grows_with_the_ranks():
    for N in (2, 8, 64):
        ring = comm.sent("all-reduce", payload=400, ranks=N)
        assert compressed.coded(numbers=100, ranks=N, bits=32, block=None) == ring
        assert compressed.local_steps(payload=400, ranks=N, steps=1)["at most"] == ring
        gathered = compressed.largest(kept=10, ranks=N)
        assert (gathered < ring) == (N < 400 * 2 / 80), "2 K/N against 8 k"


def test_at_the_break_even_both_take_as_long():
    full, less, coding = 4e9, 1e9, 0.02
    W = compressed.break_even(full=full, less=less, seconds=coding)
    assert math.isclose(full / W, less / W + coding)
    W = compressed.break_even(full=full, less=less, seconds=coding, hidden=0.5)
    assert less / W < 0.5 and math.isclose(full / W - 0.5, coding), "the code hides entirely"
    W = compressed.break_even(full=full, less=less, seconds=20, hidden=0.5)
    assert less / W > 0.5 and math.isclose(full / W, less / W + 20), "as much of both hides"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: compressed.coded(numbers=1, ranks=2, bits=8, block=0), "block = 0"),
        (lambda: compressed.low_rank(shapes=[(0, 2)], rank=1, ranks=2), "rows = 0"),
        (lambda: compressed.local_steps(payload=1, ranks=2, steps=2, fragments=3), "at most steps"),
        (lambda: compressed.break_even(full=1, less=1, seconds=1), "less = 1: expected fewer"),
        (lambda: compressed.utilization(compute=1, sending=-1), "sending = -1"),
    ],
)
def test_refusals(call, named):
    with pytest.raises(InputError, match=named):
        call()
