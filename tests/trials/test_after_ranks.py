"""Adapters on ranks: what is sent and gathered, what stays whole."""

from mathlib.model import oracle
from mathlib.trials import after_ranks as ranks


def test_replicas_are_one_process_and_without_an_exchange_they_are_not():
    cases = [("LoRA", "SGD", True), ("QLoRA", "Adam", True), ("LoRA", "SGD", False)]
    far = ranks.distances(3, cases)
    assert max(far[:2]) < oracle.EQUAL < 1e-3 < far[2]


def test_replicas_send_gradients_of_adapters_alone():
    for one in ranks.replicas(3).values():
        assert one.formula == one.program == one.system
    assert ranks.OWN < 0.1 * ranks.ALL


def test_shards_gather_what_is_frozen_and_scatter_what_is_trained():
    found = ranks.sharded(2)
    for method, one in found.items():
        assert one == ranks.told(method), method
    assert found["LoRA"].gathered > found["full"].gathered
    assert found["LoRA"].scattered < 0.1 * found["full"].scattered


def test_what_is_in_integers_stays_whole():
    two, four = ranks.at_rest(2), ranks.at_rest(4)
    for found in (two, four):
        for told, measured in found.values():
            assert told <= measured < 1.01 * told
    assert four["LoRA"][1] == two["LoRA"][1] / 2
    assert two["QLoRA"][1] < two["LoRA"][1] and four["QLoRA"][1] > four["LoRA"][1]
