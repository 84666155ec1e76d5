"""What is drawn of a collective is what it does: pieces, rounds, bytes."""

import pytest
from charts import SPACE, drawn

from mathlib.checks import InputError
from mathlib.show.schemes import collectives
from mathlib.traffic import comm


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", collectives.BEFORE_AFTER)
def test_nothing_is_lost_and_nothing_invented(name, ranks):
    before, after = collectives.BEFORE_AFTER[name](ranks)
    assert len(before) == len(after) == ranks and {len(row) for row in before + after} == {ranks}

    def there(held):
        return {r for row in held for whose in row for r in whose}

    assert there(after) == there(before)


def test_a_ring_leaves_what_an_all_reduce_leaves():
    _, after = collectives.BEFORE_AFTER["all-reduce"](4)
    _, half = collectives.BEFORE_AFTER["reduce-scatter"](4)
    everything = frozenset(range(4))
    assert collectives.held_after(4, 6)[0] == after
    middle = collectives.held_after(4, 3)[0]
    assert [[whose == everything for whose in row] for row in middle] == [
        [bool(whose) for whose in row] for row in half
    ]


def test_an_arrow_for_each_rank_and_round():
    chart = drawn(collectives.ring(3, rounds=(1, 2)))
    curved = [p for p in chart.iter(f"{SPACE}path") if "Q" in p.get("d")]
    assert len(curved) == 6


@pytest.mark.parametrize("ranks", [3, 5, 6, 12])
def test_ranks_beyond_a_power_of_two_send_what_the_formula_says(ranks):
    size = {"K": 1.0} | {f"K/{1 << e}": 1 / (1 << e) for e in range(1, 4)}
    messages = [one for turn in collectives.halving_rounds(ranks) for one in turn]
    sent = [sum(size[what] for a, _, what in messages if a == r) for r in range(ranks)]
    moved = comm.traffic("all-reduce", payload=1, ranks=ranks, algorithm="halving-doubling")
    assert (max(sent), sum(sent)) == (moved.busiest, moved.total)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_rounds_are_those_of_the_formulas(ranks):
    tree, halving = collectives.tree_rounds(ranks), collectives.halving_rounds(ranks)
    for rounds, name in ((tree, "tree"), (halving, "halving-doubling")):
        moved = comm.traffic("all-reduce", payload=1, ranks=ranks, algorithm=name)
        size = {"K": 1.0} | {f"K/{1 << e}": 1 / (1 << e) for e in range(1, 6)}
        assert len(rounds) == moved.rounds
        assert sum(size[what] for one in rounds for *_, what in one) == moved.total


def test_every_message_between_partners_is_one_bow():
    chart = drawn(collectives.who_talks({"halving": collectives.halving_rounds(4)}))
    bows = [p for p in chart.iter(f"{SPACE}path") if "C" in p.get("d")]
    assert len(bows) == 4 * 2


def test_an_unknown_collective_is_refused():
    with pytest.raises(InputError, match="collective"):
        collectives.before_and_after("all-redduce")
