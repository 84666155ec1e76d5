"""Whole matrices by owners: Muon's and Shampoo's updates, weights after every step, bytes."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch.utils.flop_counter import FlopCounterMode

from mathlib import launch, specs
from mathlib.compute import matrix_updates
from mathlib.memory import matrix_states
from mathlib.meters import saved, wire
from mathlib.model import data, llama, oracle
from mathlib.parallel.plain import muon, ring, shampoo
from mathlib.traffic import owners

SHAPE = specs.find_model("llama3-8b").but(
    **{"name": "small", "layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "head_dim": 4},
    **{"vocab": len(data.vocabulary()), "context": 8, "ffn_width": 40},
)
STEPS, BATCH = 3, 12
TORCH = partial(torch.optim.Muon, lr=0.02, weight_decay=0)
WAYS = {
    "muon": muon.Owners,
    "shampoo": partial(muon.Owners, whole=shampoo.Shampoo),
    "repeated": shampoo.Repeated,
}


def built(seed=0):
    return llama.Llama(SHAPE, seed=seed).double()


def one_process(whole, optimizer):
    model, history = built(), []
    made = muon.Both(list(model.parameters()), model.blocks, whole, oracle.OPTIMIZERS[optimizer])
    for step in range(STEPS):
        oracle.loss(model, *data.batch(BATCH, SHAPE.context, step)).backward()
        made.step()
        history.append(oracle.flat_weights(model).clone())
    return history


def by_ranks(way, optimizer="Adam"):
    model = built(dist.get_rank())
    made = WAYS[way](model, oracle.OPTIMIZERS[optimizer], model.blocks)
    history = []
    for step in range(STEPS):
        batch = data.batch(BATCH, SHAPE.context, step)
        oracle.loss(model, *oracle.my_part(batch)).backward()
        with wire.sent() as sent:
            made.step()
        history.append(oracle.flat_weights(model).clone())
    wholes = [of for of in made.optimizer.parts if isinstance(of, muon.Muon | shampoo.Shampoo)]
    return history, sent, sum(saved.tensor_bytes(list(of.state.values())) for of in wholes)


@pytest.mark.parametrize("shape", [(8, 24), (24, 8), (16, 16)])
def test_an_update_is_torch_s_to_the_bit(shape):
    draw = torch.Generator().manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.zeros(shape, dtype=torch.double)) for _ in "12")
    one, other = muon.Muon([ours]), TORCH([theirs])
    for _ in range(3):
        ours.grad = torch.randn(shape, dtype=torch.double, generator=draw)
        theirs.grad = ours.grad.clone()
        one.step()
        other.step()
        assert torch.equal(ours, theirs)
    singular = torch.linalg.svdvals(muon.orthogonal(ours.grad).double())
    assert singular.min() > 0.5 and singular.max() < 1.3
    assert torch.linalg.svdvals(muon.orthogonal(ours.grad, 0).double()).min() < 0.4


@pytest.mark.parametrize("shape", [(8, 24), (24, 8), (16, 16)])
def test_flop_are_those_of_the_formula_as_torch_counts(shape):
    rows, columns = shape
    with FlopCounterMode(display=False) as counter:
        muon.orthogonal(torch.randn(shape))
    assert counter.get_total_flops() == matrix_updates.newton_schulz(rows=rows, columns=columns)
    weight = torch.nn.Parameter(torch.zeros(shape))
    weight.grad = torch.randn(shape)
    made = shampoo.Shampoo([weight], often=2)
    made.step()  # with roots, which the second step has no need of
    with FlopCounterMode(display=False) as counter:
        made.step()
    assert counter.get_total_flops() == matrix_updates.shampoo(rows=rows, columns=columns)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    def run():
        return {(way, o): by_ranks(way, o)[0] for way in WAYS for o in oracle.OPTIMIZERS}

    found = launch.run(run, ranks)
    for way, optimizer in found[0]:
        whole = TORCH if way == "muon" else shampoo.Shampoo
        for step, wanted in enumerate(one_process(whole, optimizer)):
            now = [history[way, optimizer][step] for history in found]
            assert oracle.distance(now, wanted) < oracle.EQUAL, (way, optimizer, step)


def test_without_the_sum_or_with_pieces_of_matrices_they_are_apart():
    def alone():
        ring.reduce_scatter = lambda flat, _, cuts: flat.tensor_split(cuts)[dist.get_rank()]
        return by_ranks("muon")[0]

    def pieces():
        whole = muon.orthogonal
        muon.orthogonal = lambda matrix, steps=5: torch.cat(
            [whole(half, steps) for half in matrix.chunk(2)]
        )
        return by_ranks("muon")[0]

    wanted = one_process(TORCH, "Adam")[-1]
    for broken in (alone, pieces):
        found = launch.run(broken, 2)
        assert oracle.distance([history[-1] for history in found], wanted) > 1e-4


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bytes_sent_are_those_of_the_formula(ranks):
    sizes = [p.nbytes for p in built().parameters()]

    found = launch.run(lambda: {way: by_ranks(way)[1] for way in WAYS}, ranks)
    assert all(sent.program == sent.system for one in found for sent in one.values())
    for way in ("muon", "shampoo"):
        assert [one[way].program for one in found] == owners.sent_by_owners(sizes, ranks)
        mean = sum(one[way].program for one in found) / ranks
        assert mean == pytest.approx(owners.by_way("owners", payload=sum(sizes), ranks=ranks).total)
    repeated = sum(one["repeated"].program for one in found) / ranks
    wanted = owners.by_way("repeated", payload=sum(sizes), ranks=ranks).total
    assert repeated == pytest.approx(wanted)


def test_states_are_the_formula_s_and_owners_share_them():
    found = launch.run(lambda: {way: by_ranks(way)[2] for way in WAYS}, 3)
    told = matrix_states.muon(SHAPE, dtype="fp64").amount("momentum")
    assert sum(one["muon"] for one in found) == told
    told = matrix_states.shampoo(SHAPE, dtype="fp64")
    factors = told.total - told.amount("moments of the rest")
    assert sum(one["shampoo"] for one in found) == factors
    assert [one["repeated"] for one in found] == [factors] * 3
    assert max(one["shampoo"] for one in found) < 0.5 * factors
