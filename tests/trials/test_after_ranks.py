"""Adapters on ranks: what is sent and gathered, what stays whole."""

from mathlib import launch
from mathlib.model import oracle
from mathlib.trials import after_ranks as ranks
from mathlib.trials.after import batch, trained


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


def test_bits_in_buffers_stay_whole_and_as_parameters_are_sharded():
    two, four = ranks.at_rest(2), ranks.at_rest(4)
    for found in (two, four):
        for told, measured in found.values():
            assert told <= measured < 1.01 * told
    assert four["LoRA"][1] == two["LoRA"][1] / 2
    lora, whole, cut = ([found[name][1] for found in (two, four)] for name in ranks.KEPT)
    assert whole[0] < lora[0] and whole[1] > lora[1] > cut[1] and cut[1] < 0.51 * cut[0]


def test_integer_parameters_train_as_buffers_do():
    def steps():
        found = []
        for own in (False, True):
            net = ranks._cut(ranks.packed(own))
            loss = oracle.loss(net, *batch())
            loss.backward()
            found.append([loss.item(), *(p.grad.to_local().tolist() for p in trained(net))])
        return found

    for buffers, parameters in launch.run(steps, 2):
        assert buffers == parameters and len(buffers) > 1
