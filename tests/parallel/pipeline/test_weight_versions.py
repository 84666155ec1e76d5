"""PipeDream and 2BW by the oracle of gradients that come late, with and without stashing."""

import pipelines
import pytest
import torch
import torch.distributed as dist
from patience import PATIENCE

from mathlib import launch
from mathlib.checks import InputError
from mathlib.model import delayed_sgd, gpt, oracle
from mathlib.parallel.pipeline.weight_versions import Versions
from mathlib.schedule import orders, weights

MODEL = pipelines.shape(tied=False)
M, EACH = 8, 4  # micro-batches of a run; of an update of 2BW
BATCH = pipelines.batch(0, masked=0.5)  # every micro-batch has tokens that count


def schedule(name, stages):
    more = {"accumulate": EACH} if name == "2bw" else {}
    return orders.make(name, stages=stages, micro_batches=M, **more)


def by_stages(name, optimizer, stash=True):
    """One run: weights by name, losses, the most versions of this stage's weights."""
    whole = Versions.stash
    if not stash:
        Versions.stash = lambda self: None
    pipe = pipelines.make(MODEL, schedule(name, dist.get_world_size()), optimizer)
    losses = pipe.run(*BATCH)
    Versions.stash = whole
    return pipe.weights(), losses, pipe.versions.most


def run_all(cases):
    return [by_stages(*case) for case in cases]


def by_one(name, stages, optimizer):
    """The oracle's last weights by name, and its losses, of updates."""
    cut = pipelines.uneven(MODEL.layers, stages)
    home = {f"blocks.{layer}.": s for s, layers in enumerate(cut) for layer in layers}

    def late(parameter):
        if name == "2bw":
            return 1
        ends = {"tokens": 0, "positions": 0}.get(parameter.partition(".")[0], stages - 1)
        s = next((s for start, s in home.items() if parameter.startswith(start)), ends)
        return stages - 1 - s  # what is on its way between the stage's forward and backward

    each = EACH if name == "2bw" else 1
    micro = [t.tensor_split(M) for t in BATCH]
    updates = [[torch.cat(part[k : k + each]) for part in micro] for k in range(0, M, each)]
    model = gpt.GPT(MODEL).double()
    made = oracle.OPTIMIZERS[optimizer](model.parameters())
    _, losses = delayed_sgd.one_process(model, updates, made, late)
    return {n: p.detach() for n, p in model.named_parameters()}, losses


def far(ranks, wanted):
    return oracle.distance(
        (mine[n] - wanted[n] for mine, *_ in ranks for n in mine), torch.zeros(())
    )


CASES = [(name, optimizer) for name in ("pipedream", "2bw") for optimizer in oracle.OPTIMIZERS]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_weights_and_losses_are_those_of_delayed_gradients(stages):
    found = launch.run(run_all, stages, CASES, timeout=PATIENCE)
    for (name, optimizer), *ranks in zip(CASES, *found, strict=True):
        wanted, losses = by_one(name, stages, optimizer)
        assert far(ranks, wanted) < oracle.EQUAL, (name, optimizer)
        each = M // len(losses)
        parts = list(ranks[-1][1].values())
        summed = [sum(parts[k : k + each]) for k in range(0, M, each)]
        assert summed == pytest.approx(losses, rel=1e-12)
        for s, (_, _, most) in enumerate(ranks):
            assert most == weights.versions_kept(schedule(name, stages), stage=s)
            assert most == (stages - s if name == "pipedream" else 2)


def test_it_is_not_training_without_delay():
    """The oracle is no formality: with the same micro-batches, one process ends elsewhere."""
    wanted, _ = by_one("pipedream", 3, "SGD")
    model = gpt.GPT(MODEL).double()
    micro = zip(*(t.tensor_split(M) for t in BATCH), strict=True)
    oracle.one_process(model, micro, oracle.OPTIMIZERS["SGD"](model.parameters()))
    assert far([(dict(model.named_parameters()),)], wanted) > 1e-4


def test_without_stashing_the_weights_are_apart():
    """A micro-batch then goes back through other weights than it came with: no gradient of
    anything.
    """
    cases = [("pipedream", "SGD", False), ("2bw", "SGD", False)]
    found = launch.run(run_all, 3, cases, timeout=PATIENCE)
    for (name, optimizer, _), *ranks in zip(cases, *found, strict=True):
        wanted, _ = by_one(name, 3, optimizer)
        assert far(ranks, wanted) > 1e-6, name


def refusals():
    said = []
    late = schedule("pipedream", 2)
    with pytest.raises(InputError) as refused:
        pipelines.make(pipelines.shape(), late, "SGD")
    said.append(str(refused.value))
    pipe = pipelines.make(MODEL, late, "SGD")
    with pytest.raises(InputError) as refused:
        pipe.step()
    return [*said, str(refused.value)]


def test_what_has_no_meaning_without_a_flush_is_refused():
    for tied, step in launch.run(refusals, 2, timeout=PATIENCE):
        assert "two of them hold tokens.weight; expected no tied parameter" in tied
        assert "run has done the steps" in step


def test_a_version_that_is_not_there_is_refused():
    versions = Versions(torch.nn.Linear(2, 2), [0, 1])
    with pytest.raises(InputError, match="micro-batch 1 is to meet version 1 .* there are 0"):
        versions.forward(1, torch.zeros(2))
