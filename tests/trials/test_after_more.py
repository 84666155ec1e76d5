"""Other optimizers' states, and a tower's stages."""

import pytest

from mathlib.trials import after_more as more


def test_muon_keeps_little_more_than_half_and_shampoo_more_than_all():
    found = more.optimizer_states()
    assert 0.5 < found["Muon"] / found["Adam"] < 0.6
    assert found["Adam in 8 bits"] < 0.27 * found["Adam"] < found["Shampoo, blocks of 8,192"]


def test_owners_send_an_all_reduce_and_a_gathered_momentum_costs_half_more():
    assert [row[-1] for row in more.muon_ways()] == ["1.00", "1.50", "2.00"]
    assert more.muon_ways()[0][1] == "24.4 GB", "of the matrices, and not of all weights"


def test_what_is_printed_of_muon_lies_between_shards_and_whole():
    shared, whole, printed = more.muon_saved()
    assert whole == 8 * shared and shared < printed < whole


def test_the_best_split_is_uneven_and_loses_no_work():
    (even, equal), (alone, own), (shared, beside), (cut, best) = more.stages().values()
    assert alone[0] == 24 and shared == [32, 8, 8, 8] and sum(alone) == 24 + 32
    assert max(best) < max(beside) < max(own) < max(equal)
    assert sum(even) == sum(cut) == 24 + 32 and cut[0] > 24
    assert sum(equal) == pytest.approx(sum(best)) and max(best) < 0.6 * max(equal)
    assert more.tower()["parameters"] < 0.05 * more.P8


def test_packed_rows_have_the_least_padding_and_the_fewest_pairs():
    rows = {way: (int(share[:-1]), int(pairs.split()[0])) for way, share, pairs in more.packed()}
    padded, ordered, packed = rows["padded"], rows["sorted"], rows["packed"]
    assert padded[0] > 50 > 10 > ordered[0] > packed[0]
    assert padded[1] > 3 * ordered[1] > 3 * packed[1]
    assert int(more.packed(sequences=1)[0][1][:-1]) == 0, "alone no text is padded"
