"""The best learning rate of a small run is inside the range, and one that is too small is worse."""

from mathlib.trials import after_rates as rates


def test_a_best_rate_lies_within_the_range():
    for rank in (0, 8):
        line = rates.sweep(rank)
        best = min(line, key=line.get)
        assert min(line) < best < max(line)
        assert line[min(line)] > line[best] + 0.1
