"""Plain ZeRO by the oracle of one process, by what it keeps, and by its bytes."""

import pytest
import sharding
import torch.distributed as dist

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.plain import ring, zero

STAGES = (1, 2, 3)


def case(stage, optimizer="SGD", parts=1):
    way = f"plain {stage}"
    return {"stage": way, "problem": "gpt", "optimizer": optimizer, "parts": parts}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    cases = [case(stage, o, 1 + (o == "SGD")) for stage in STAGES for o in oracle.OPTIMIZERS]
    assert not sharding.apart(ranks, cases)


@pytest.mark.parametrize("stage", STAGES)
def test_without_the_reduction_or_with_another_shard_they_are_apart(stage):
    def alone():
        ring.reduce_scatter = lambda flat, _: flat.chunk(2)[dist.get_rank()] * 2
        return sharding.by_ranks(**case(stage))

    def shifted():
        zero.Flat.mine = lambda self, flat: flat.chunk(2)[1 - self.rank]
        return sharding.by_ranks(**case(stage))

    *_, wanted = sharding.by_one("gpt", "SGD")
    for broken in (alone, shifted):
        found = launch.run(broken, 2)
        apart = oracle.distance([history[-1] for history in found], wanted)
        assert not apart <= 1e-6  # some is no number: what nobody gathered is not initialised


def kept(stage):
    """Bytes of whole weights and whole gradients after backward, of shards and their gradients."""
    model = sharding.build("gpt", 0)
    way = sharding.sharded(f"plain {stage}", model, oracle.OPTIMIZERS["SGD"], "gpt")
    oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
    shards = [flat.shard for flat in way.flats]
    return {
        "weights": sum(flat.whole.untyped_storage().nbytes() for flat in way.flats),
        "gradients": sum(p.grad.nbytes for p in model.parameters() if p.grad is not None),
        "shards": sum(shard.nbytes for shard in shards),
        "their gradients": sum(s.grad.untyped_storage().nbytes() for s in shards if stage > 1),
    }


def test_each_stage_keeps_less():
    K = 8 * sum(p.numel() for p in sharding.build("gpt", 0).parameters())
    for stage in STAGES:
        assert launch.run(kept, 2, stage)[1] == {
            "weights": K if stage < 3 else 0,
            "gradients": K if stage < 2 else 0,
            "shards": K / 2,
            "their gradients": K / 2 if stage > 1 else 0,
        }


@pytest.mark.parametrize(("ranks", "parts"), [(2, 1), (3, 2), (4, 2)])
def test_bytes_are_those_of_the_formula_and_of_the_sturdy_class(ranks, parts):
    def run():
        found = {stage: sharding.sent(f"plain {stage}", parts) for stage in STAGES}
        assert all(sent["system"] == sent["messages alone"] for sent in found.values())
        if ranks != 3:  # there the sturdy rows are padded otherwise
            found |= {f"sturdy {stage}": sharding.sent(stage, parts) for stage in STAGES}
        return {str(way): sent["program"] for way, sent in found.items()}

    for found in launch.run(run, ranks):
        for way, program in found.items():
            wanted = sharding.predicted(int(way[-1]), ranks, parts)
            assert program == pytest.approx(wanted, rel=1e-12), way
