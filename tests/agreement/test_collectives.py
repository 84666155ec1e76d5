"""Bytes of the all-reduces: formula, program and operating system, to the byte."""

import pytest
import torch
from ways_to_sum import ALL_REDUCE

from mathlib import launch
from mathlib.meters import wire
from mathlib.traffic import comm


def count(length: int) -> dict[str, tuple[wire.Counted, int]]:
    x, counts = torch.ones(length), {}
    for name, (all_reduce, _) in ALL_REDUCE.items():
        with wire.counted() as program:
            all_reduce(x)
        with wire.tcp() as system:
            all_reduce(x)
        counts[name] = program, system.sent
    return counts


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_three_counts_of_bytes_agree(n):
    """Formula, program and operating system, to the byte."""
    for length in (840 * n, 840 * n - 1):  # the second divides by no N but 1
        ranks = launch.run(count, n, length)
        for name, (_, algorithm) in ALL_REDUCE.items():
            formula = comm.traffic("all-reduce", payload=4 * length, ranks=n, algorithm=algorithm)
            programs, systems = zip(*(counts[name] for counts in ranks), strict=True)
            assert sum(program.sent for program in programs) == formula.total, name
            assert list(systems) == [program.on_wire for program in programs], name
            if length % n == 0:
                assert max(program.sent for program in programs) == formula.busiest, name
            if algorithm == "ring":
                assert {program.messages for program in programs} == {formula.rounds}, name
