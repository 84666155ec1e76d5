"""Who has which keys when, who computes which scores, and for how long, as the schedule has it."""

import pytest
from charts import drawn, said, words

from mathlib.schedule import ring_order
from mathlib.show.schemes import sequences


def test_each_rank_meets_the_keys_of_all_its_own_first():
    told = said(drawn(sequences.passed(3)))
    assert "step 0: rank 0 has 0, rank 1 has 1, rank 2 has 2" in told
    assert "step 2: rank 0 has 1, rank 1 has 2, rank 2 has 0" in told
    assert words(drawn(sequences.passed(3))).count("K2, V2") == 3


def test_zigzag_gives_a_rank_the_r_th_and_the_r_th_last_chunk():
    assert sequences.owners("plain", 4) == [0, 1, 2, 3]
    assert sequences.owners("zigzag", 3) == [0, 1, 2, 2, 1, 0]


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_blocks_of_the_square_are_those_of_the_schedule(ranks):
    told = said(drawn(sequences.square(ranks)))
    for order, title in sequences.NAMES.items():
        pieces = len(sequences.owners(order, ranks))
        steps = ring_order.step_scores(order, ranks=ranks, tokens=2000 * ranks)
        blocks = [
            sum(step[r] for step in steps) / (2000 * ranks / pieces) ** 2 for r in range(ranks)
        ]
        line = told.partition(f"{title}: ")[2].partition(";")[0]
        shown = [float(part.split()[2]) for part in line.split(", ")]
        assert shown == pytest.approx(blocks, abs=0.01)


def test_by_the_clock_zigzag_ends_when_half_of_the_plain_ring_s_last_rank_is_done():
    told = said(drawn(sequences.clock(4)))
    assert "Plain order: rank by rank 0.5, 1.5, 2.5, 3.5 blocks, done after 3.5" in told
    assert "Zigzag: rank by rank 2.0, 2.0, 2.0, 2.0 blocks, done after 2.0" in told


def test_slow_messages_let_every_rank_wait():
    assert "Zigzag: rank by rank 1.5, 1.5, 1.5 blocks, done after 2.1" in said(
        drawn(sequences.clock(3, message=0.8))
    )


def test_an_exchange_gives_a_rank_all_tokens_of_its_heads():
    assert said(drawn(sequences.exchanged(4, 8))).endswith("in attention all chunks of 2 heads")
