"""The best learning rate of a small run is inside the range, and one that is too small is worse."""

from mathlib.trials import after_rates as rates


def test_a_best_rate_lies_within_the_range():
    some = [rates.RATES[i] for i in (0, 2, 4, 5)]  # the trial runs them all, by three seeds
    for rank in (0, 8):
        line = rates.sweep(rank, some, seeds=[1])
        best = min(line, key=line.get)
        assert min(line) < best < max(line)
        assert line[min(line)] > line[best] + 0.1
