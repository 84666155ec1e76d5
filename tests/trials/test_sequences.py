"""The studies of the sequences chapter say what they are said to say."""

import pytest

from mathlib.memory import activations
from mathlib.model import gpt, oracle
from mathlib.schedule import ring_order
from mathlib.trials import sequences


@pytest.mark.parametrize("way", sequences.WAYS)
def test_each_way_trains_as_one_process_does_and_not_without_the_average(way):
    assert sequences.distance(way, 3, "Adam") < oracle.EQUAL
    assert sequences.distance(way, 3, without="the average") > 1e-6


def test_without_the_blocks_of_others_a_ring_trains_something_else():
    assert sequences.distance("ring, plain", 3, without="the blocks of others") > 1e-6


def test_bytes_are_those_of_the_formula_and_ulysses_sends_fewer():
    found = sequences.counted(3)
    assert all(formula == system for formula, system in found.values()), found
    assert found["Ulysses"] < found["ring, plain"] == found["ring, zigzag"]


@pytest.mark.parametrize("order", ring_order.ORDERS)
def test_a_rank_is_at_work_as_the_law_says(order):
    law = ring_order.efficiency(order, ranks=3, tokens=3 * sequences.OWN)
    assert sequences.at_work(order, 3) == pytest.approx(law, rel=1e-12)


def test_a_layer_keeps_what_belongs_to_its_own_tokens():
    for heads in (False, True):
        shape = gpt.small(1, width=32, heads=4, context=32)
        own = {"micro_batch": sequences.SEQUENCES, "context": 2, "bytes_per_element": 4}
        layer = activations.layer(shape, attention="flash", small_tensors=True, **own).total
        more = activations.ulysses(shape, **own) if heads else 0
        assert sequences.kept(32, 2, heads) == layer + more


def test_a_paced_rank_takes_at_least_the_time_of_its_scores():
    from mathlib import launch

    zigzag, plain = launch.run(lambda: [sequences.paced(o, 1) for o in ("zigzag", "plain")], 2)[0]
    assert zigzag >= 2 * sequences.BLOCK and plain >= 2 * 1.5 * sequences.BLOCK
