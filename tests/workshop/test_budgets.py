"""What a run may take is what the chapters' formulas say."""

from mathlib.traffic import comm
from mathlib.workshop import budgets
from mathlib.workshop.ranks import NUMBER


def test_bytes_and_seconds_are_those_of_the_collectives():
    sent = budgets.sent("2 K (N-1)/N", "all-reduce", numbers=12, ranks=4)
    assert sent.most == comm.sent("all-reduce", payload=48, ranks=4) == 72
    time = budgets.time("", "all-reduce", numbers=12, ranks=4)
    assert time.most == 2 * 3 * (1.0 + 12 / 4) and NUMBER == budgets.LINK.bandwidth == 4


def test_shards_that_are_not_equal_are_counted_as_padded():
    sent = budgets.sent("", "all-gather", numbers=7, ranks=3)
    assert sent.most == comm.sent("all-gather", payload=4 * 9, ranks=3)


def test_a_rank_has_one_port_for_all_that_it_sends():
    cluster = budgets.alone(3)
    assert cluster.nodes == (1, 1, 1) and cluster.between == budgets.LINK
