"""PyTorch's own sharded training beside ours: the same weights, and what each sends and holds.

K bytes of the model, of which all but a fortieth stands in its layers    N ranks
"""

import pytest
from patience import PATIENCE

from mathlib import launch
from mathlib.model import gpt, oracle
from mathlib.traffic import comm, volumes
from mathlib.trials import zero_torch

N = 4
NUMBER = 8  # bytes
PARAMETERS = sum(p.numel() for p in gpt.GPT(zero_torch.MODEL).parameters())
LAYER = sum(p.numel() for p in gpt.GPT(zero_torch.MODEL).blocks[0].parameters())
LAYERS = LAYER * zero_torch.MODEL.layers
K = NUMBER * PARAMETERS


@pytest.mark.parametrize(("optimizer", "ranks"), [("SGD", 4), ("Adam", 2)])
def test_everybody_trains_to_the_weights_of_one_process(optimizer, ranks):
    ways = [way for way in zero_torch.WAYS if way != "HSDP" or ranks == 4]
    wanted = zero_torch.by_one(optimizer)
    found = launch.run(zero_torch.weights_after_steps, ranks, ways, optimizer, timeout=PATIENCE)
    for way in ways:
        for rank in found:
            for mine, one in zip(rank[way], wanted, strict=True):
                assert oracle.distance([mine], one) < oracle.EQUAL, way


@pytest.fixture(scope="module")
def found() -> list[dict[str, tuple[int, int]]]:
    return launch.run(zero_torch.sent_and_held, N, list(zero_torch.WAYS), timeout=PATIENCE)


def sent(found, way: str) -> float:
    """By a rank, on the average, as the operating system counts."""
    return sum(rank[way][0] for rank in found) / N


def held(found, way: str) -> int:
    """The least of the ranks' peaks: gloo's threads may hold a buffer a moment longer."""
    return min(rank[way][1] for rank in found)


def formula(stage: int, parameters: int, **options) -> float:
    bytes_each = {"weight_bytes": NUMBER, "gradient_bytes": NUMBER}
    return volumes.zero(parameters=parameters, data=N, stage=stage, **bytes_each, **options).total


def doubled_reduce_scatter(ranks: int) -> float:
    """What gloo's reduce-scatter, an all-reduce whose result is cut, sends too much."""
    return comm.sent("reduce-scatter", payload=K, ranks=ranks)


def test_ours_sends_the_formulas_bytes(found):
    for way in ("ZeRO-1", "ZeRO-1, small flat buffers"):
        assert sent(found, way) == pytest.approx(formula(1, PARAMETERS), rel=0.01)
    assert sent(found, "ZeRO-2") == pytest.approx(formula(2, PARAMETERS), rel=0.01)
    stays = formula(3, PARAMETERS - LAYERS, keep_gathered=True)
    assert sent(found, "ZeRO-3") == pytest.approx(formula(3, LAYERS) + stays, rel=0.01)


def test_zero_redundancy_sends_half_as_much_again(found):
    """DDP all-reduces the gradients, then every rank broadcasts the weights that it updated: 3 K
    where a reduce-scatter and an all-gather need 2 K.
    """
    theirs = sent(found, "ZeroRedundancyOptimizer")
    assert theirs == pytest.approx(formula(1, PARAMETERS, stage_one="all-reduce"), rel=0.01)
    assert theirs == pytest.approx(1.5 * sent(found, "ZeRO-1"), rel=0.01)


def test_fsdp2_gathers_as_we_do_and_pays_for_gloos_reduce_scatter(found):
    ours, theirs = sent(found, "ZeRO-3"), sent(found, "FSDP2")
    assert theirs - ours == pytest.approx(doubled_reduce_scatter(N), rel=0.02)


def test_mics_and_hsdp_do_so_in_their_groups_and_all_reduce_across_them(found):
    shard = {"shard": 2}
    wanted = formula(3, LAYERS, **shard)
    wanted += formula(3, PARAMETERS - LAYERS, keep_gathered=True, **shard)
    assert sent(found, "MiCS") == pytest.approx(wanted, rel=0.01)
    assert sent(found, "HSDP") == pytest.approx(wanted + doubled_reduce_scatter(2), rel=0.01)


def test_zero_redundancy_holds_less_than_stage_one_that_packs_all_gradients_at_once(found):
    """Its gradients are views of DDP's buckets, summed where they lie. Our row is packed, and what
    the other ranks send arrives beside it: K more, and of small rows only two at a time. Stage 2
    sends them during backward, and needs least.
    """
    theirs = held(found, "ZeroRedundancyOptimizer")
    small = held(found, "ZeRO-1, small flat buffers")
    assert held(found, "ZeRO-1") - theirs == pytest.approx(K, rel=0.05)
    assert 0.95 * theirs < small < theirs
    assert held(found, "ZeRO-2") < 0.8 * theirs


def test_half_the_bytes_on_the_wire_cost_a_layers_gradients_in_memory(found):
    """All N pieces arrive at a rank that adds them up itself; a reduce-scatter leaves it one."""
    theirs, ours = held(found, "FSDP2"), held(found, "ZeRO-3, one flat buffer in flight")
    layer = NUMBER * LAYER
    assert ours - theirs == pytest.approx(layer * (N - 1) / N, abs=0.25 * layer)
    assert ours < held(found, "ZeRO-3")  # a second row on its way is one more in memory
    assert held(found, "ZeRO-3") < 0.75 * held(found, "ZeRO-1")
    assert theirs < held(found, "HSDP") < held(found, "ZeRO-1")  # half of everything, not a quarter
    assert ours < held(found, "MiCS") < held(found, "ZeRO-1")


def test_what_mics_holds_above_hsdp_is_the_piece_that_it_gets_of_the_other_rank(found):
    """As with stage 3: of a sharding group of two, the half of a layer's gradients that arrives."""
    ours, theirs = held(found, "MiCS, one flat buffer in flight"), held(found, "HSDP")
    layer = NUMBER * LAYER
    assert ours - theirs == pytest.approx(layer / 2, abs=0.1 * layer)


def test_fsdp2_gathers_layers_twice_scatters_once_and_calls_nothing_else():
    for calls in launch.run(zero_torch.calls_of_fsdp2, 2):
        (every, _), (gathers, gathered), (scatters, scattered) = calls.values()
        layers = zero_torch.MODEL.layers
        assert (every, gathers, scatters) == (3 * layers + 2, 2 * layers + 1, layers + 1)
        assert (2 * gathered, 2 * scattered) == (K + LAYERS * NUMBER, K)  # in fp32


def test_fsdp2_cuts_every_parameter_in_the_order_of_the_ranks():
    assert launch.run(zero_torch.cuts_by_rank, 2) == [True, True]
