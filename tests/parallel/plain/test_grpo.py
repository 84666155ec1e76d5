"""Two roles of one model: written and trained on the same ranks or apart, as in one process."""

import re
import runpy

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import oracle
from mathlib.parallel.plain import grpo, script
from mathlib.parallel.plain.zero import Zero
from mathlib.trials.after_roles import built, one_process

STEPS, G = 3, 4
SHAPE = script.MODEL


def by_ranks(N, optimizer):
    """The same history, on each rank; a writer's are the weights that it wrote with."""
    rank, history, sent = dist.get_rank(), [], 0
    group, apart = dist.new_group(range(N)), dist.get_world_size() > N
    make = oracle.OPTIMIZERS[optimizer]
    if rank >= N:
        way = grpo.Writer(built(), N)
    else:
        kind, own = (grpo.Apart, (group,)) if apart else (grpo.Together, ())
        way = kind(built(), make, script.vowels, *own)
    for number in range(STEPS):
        prompts, dice = script.replies(N, number)
        with wire.counted() as counted:
            way.step(*((prompts[rank], dice[rank], G) if rank < N else (prompts, dice)))
        sent = counted.sent + counted.passed
        whole = way.whole() if rank < N else oracle.flat_weights(way.model)
        history.append(whole.clone())
        if rank < N:
            way.release()
    return history, sent


@pytest.mark.parametrize(("N", "writers"), [(1, 0), (3, 0), (2, 1), (2, 2)])
def test_weights_after_every_step_are_those_of_one_process(N, writers):
    def run():
        return {name: by_ranks(N, name)[0] for name in oracle.OPTIMIZERS}

    found = launch.run(run, N + writers)
    for name in oracle.OPTIMIZERS:
        wanted, first = one_process(N, name, STEPS), oracle.flat_weights(built())
        for step in range(STEPS):
            now = [found[r][name][step] for r in range(N)]
            assert oracle.distance(now, wanted[step]) < oracle.EQUAL, (name, step)
            for r in range(N, N + writers):  # wrote with what the step before left
                wrote = found[r][name][step]
                assert torch.equal(wrote, found[0][name][step - 1] if step else first)
        assert oracle.distance([wanted[-1]], wanted[0]) > 1e-4


def test_a_writer_with_old_weights_is_seen():
    def stale():
        grpo.vector_to_parameters = lambda *given: (
            None if dist.get_rank() == 2 else torch.nn.utils.vector_to_parameters(*given)
        )
        return by_ranks(2, "SGD")[0]

    found, wanted = launch.run(stale, 3), one_process(2, "SGD", STEPS)
    assert oracle.distance([found[0][0]], wanted[0]) < oracle.EQUAL, "the first replies are right"
    assert oracle.distance([found[0][-1]], wanted[-1]) > 1e-6


def test_writing_adds_a_gather_of_all_weights_and_apart_a_copy_of_them():
    """Beside what ZeRO-3 sends anyway, in bytes."""

    def bare():
        model = built()
        way = Zero(model, oracle.OPTIMIZERS["SGD"], model.blocks, 3)
        prompts, dice = script.replies(2, 0)
        T, text = dice[0].shape[1], torch.cat([prompts[0], prompts[0]], 1)
        earned = torch.rand(len(text) // G, G, dtype=torch.double)
        with wire.counted() as counted:
            grpo.loss(model, built(), text, earned, min(T, 8)).backward()
            way.step()
        return counted.sent + counted.passed, sum(8 * flat.whole.numel() for flat in way.flats)

    (zero, K), *_ = launch.run(bare, 2)
    exact = 8 * len(oracle.flat_weights(built()))
    together = [sent for _, sent in launch.run(by_ranks, 2, 2, "SGD")]
    apart = [sent for _, sent in launch.run(by_ranks, 3, 2, "SGD")]
    assert together == [zero + K / 2] * 2
    assert apart[:2] == [zero + K / 2 + exact, zero + K / 2]
    prompts, dice = script.replies(2, 0)
    tokens = sum(8 * len(p) * (p.shape[1] + d.shape[1]) for p, d in zip(prompts, dice, strict=True))
    assert apart[2] == tokens


def test_a_group_s_better_replies_become_likelier():
    model, first = built(), built()
    prompts, dice = (torch.cat(of) for of in script.replies(2, 0))
    T, text = dice.shape[1], grpo.write(model, prompts, dice)
    earned = script.vowels(text[:, -T:]).view(-1, G)
    before = grpo.chances(model, text, T).sum(1).detach()
    grpo.loss(model, first, text, earned, T).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 1e-3 * p.grad
        rise = grpo.chances(model, text, T).sum(1) - before
    best = earned - earned.mean(1, True)
    assert (rise.view(-1, G) * best).sum() > 0
    far = grpo.loss(first, first, text, torch.ones_like(earned), T)
    assert far.item() == 0, "alike rewards and the first weights ask for no change"


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_as_a_script_it_says_rewards_and_bytes(capsys, monkeypatch):
    monkeypatch.setattr(script, "STEPS", 2)
    runpy.run_module("mathlib.parallel.plain.grpo", run_name="__main__", alter_sys=True)
    lines = capsys.readouterr().out.splitlines()
    shape = r"\[rank 0\] (together|apart): reward 0\.\d{3}, a rank sends [\d,]+ bytes"
    assert [re.fullmatch(shape, line)[1] for line in lines] == ["together"] * 2 + ["apart"] * 2
