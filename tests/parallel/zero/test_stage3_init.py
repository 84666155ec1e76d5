"""A model that is made in shards: the same weights, and never whole on any rank."""

from functools import partial

import pytest
import sharding
import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters.saved import Storages
from mathlib.model import gpt, oracle
from mathlib.parallel.zero.flat_shards import FlatShard
from mathlib.parallel.zero.mics import Mics
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage3 import Zero3

DEEP = gpt.small(layers=12, width=32, context=8, vocab=16)
WAYS = {"zero3": Zero3, "mics": partial(Mics, shard=2, whole_below=100)}


class Held(Storages):
    """Bytes of memory; what is on the meta device has none."""

    def follow(self, tensor: torch.Tensor) -> None:
        if not tensor.is_meta:
            super().follow(tensor)


def made(way: str, on_meta: bool) -> tuple[Zero3, int]:
    """The model in shards, and the most bytes held while it was made."""
    with Held(nn.Module()) as held:
        with torch.device("meta" if on_meta else "cpu"):
            model = gpt.GPT(DEEP, seed=7)
        fill = partial(gpt.fill, seed=7) if on_meta else None
        zero = WAYS[way](model, oracle.OPTIMIZERS["SGD"], list(model.blocks), fill=fill)
    return zero, held.peak


def compared(way: str) -> tuple[bool, bool, int, int, int, int]:
    (plain, ordinary), (zero, sharded) = made(way, False), made(way, True)
    before = torch.equal(sharding.weights(zero), sharding.weights(plain))
    for one in (plain, zero):
        oracle.loss(one.module, *torch.arange(32).view(2, 2, 8) % 16).backward()
        one.step()
    after = torch.equal(sharding.weights(zero), sharding.weights(plain))
    rows = zero.every_row()
    mine = sum(row.row.untyped_storage().nbytes() if row.kept else row.shard.nbytes for row in rows)
    whole = sum(p.numel() * p.element_size() for p in zero.module.parameters())
    return before, after, ordinary, sharded, whole, mine + 2 * max(r.row.nbytes for r in rows)


@pytest.mark.parametrize("way", WAYS)
def test_weights_made_in_shards_are_the_ordinary_ones_and_no_rank_holds_them_whole(way):
    for before, after, ordinary, sharded, whole, bound in launch.run(compared, 4, way):
        assert before and after
        assert ordinary > whole
        assert sharded <= bound < 0.75 * whole


def test_a_parameter_in_two_layers_and_a_frozen_one_are_filled_too():
    def run():
        def fill(name, tensor):
            tensor.fill_(len(name))

        with torch.device("meta"):
            model = sharding.Odd()
        zero = Zero3(model, oracle.OPTIMIZERS["SGD"], model.layers(), fill=fill)
        rows = [row.row.untyped_storage().nbytes() for row in zero.every_row()]
        whole = zero.full_weights()
        tied = model.first.weight is model.tied.weight
        return tied, sum(rows), {name: tensor.unique().tolist() for name, tensor in whole.items()}

    names = dict(sharding.Odd().named_parameters(remove_duplicate=False))
    filled = {name: [float(len(name))] for name in names} | {"tied.weight": [len("first.weight")]}
    assert launch.run(run, 2) == [(True, 0, filled)] * 2


def test_replicas_begin_alike_even_if_what_fills_them_does_not():
    def run():
        with torch.device("meta"):
            model = sharding.Odd()
        mics = Mics(
            *(model, oracle.OPTIMIZERS["SGD"], model.layers()),
            shard=2,
            whole_below=6,
            fill=lambda name, tensor: tensor.fill_(dist.get_rank()),
        )
        return sharding.weights(mics)

    first, *others = launch.run(run, 4)
    assert all(torch.equal(first, other) for other in others)
    assert set(first.tolist()) == {0.0, 1.0}


def test_a_model_without_numbers_is_refused_unless_they_can_be_made():
    def run(way):
        with torch.device("meta"):
            model, odd = gpt.GPT(DEEP), nn.BatchNorm1d(3)
        with pytest.raises(InputError, match="tokens.weight and .* others on the meta device"):
            way(model)
        with pytest.raises(InputError, match="running_mean, .* on the meta device"):
            Zero3(odd, oracle.OPTIMIZERS["SGD"], [], fill=gpt.fill)

    launch.run(run, 1, lambda model: Zero1(model, oracle.OPTIMIZERS["SGD"]))
    launch.run(run, 1, lambda model: Zero3(model, oracle.OPTIMIZERS["SGD"], model.blocks))


def test_strides_are_those_of_an_ordinary_parameter():
    def run():
        with torch.device("meta"):
            layer = nn.Linear(3, 5)
        zero = Zero3(layer, oracle.OPTIMIZERS["SGD"], [], fill=gpt.fill)
        zero._gather(layer)
        row: FlatShard = zero.rows[layer][0]
        return layer.weight.stride(), layer.weight.data_ptr() == row.row.data_ptr()

    assert launch.run(run, 2) == [((3, 1), True)] * 2
