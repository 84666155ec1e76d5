"""All three stages by one oracle, the weights of one process after each step; and what is stage 1's
alone.
"""

import copy
from itertools import product

import pytest
import sharding
import torch
import torch.distributed as dist
from small_models import Branches
from torch import nn

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.meters.trace import Event, Trace
from mathlib.model import gpt, oracle
from mathlib.parallel.ddp import MissingGradients
from mathlib.parallel.zero.flat_shards import Scattering
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.traffic import volumes


def case(stage: int, problem: str, optimizer: str, **options) -> dict:
    return {"stage": stage, "problem": problem, "optimizer": optimizer, **options}


GPT = {2: ["SGD"], 3: ["Adam"]}  # by ranks


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    tried = [*product(["odd"], oracle.OPTIMIZERS), *product(["gpt"], GPT.get(ranks, []))]
    cases = [case(stage, *one) for stage in sharding.STAGES for one in tried]
    assert not sharding.apart(ranks, cases)


def test_clipping_and_accumulation_change_nothing_of_that():
    options = {"clip": 0.05}, {"parts": 3}
    cases = [case(stage, "odd", "SGD", **one) for stage in sharding.STAGES for one in options]
    assert not sharding.apart(3, cases)


def test_what_is_no_number_is_apart(monkeypatch):
    right, none = sharding.by_one("odd", "SGD"), float("nan")
    runs = [[right], [[*right[:-1], none * right[-1]]]]
    monkeypatch.setattr(sharding.launch, "run", lambda *_: runs)
    ((far, one),) = sharding.apart(2, [case(1, "odd", "SGD")])
    assert far != far and one["stage"] == 1


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_without_the_exchange_the_ranks_are_apart(stage):
    def run():
        def alone(self, dtype):
            self.work.wait()
            rank = dist.get_rank()
            return self.ranks * self.row.view(self.ranks, -1)[rank].to(dtype, copy=True)

        Scattering.wait = alone
        return sharding.by_ranks(stage, "odd", "SGD")

    wanted = sharding.by_one("odd", "SGD")
    assert oracle.distance([h[-1] for h in launch.run(run, 2)], wanted[-1]) > 1e-6


def test_clipping_returns_the_norm_of_the_whole_gradient():
    def run(clip):
        model = sharding.build("odd", 0)
        zero = Zero1(model, oracle.OPTIMIZERS["SGD"], clip=clip)
        batch = sharding.odd_batch(0)
        sharding.mse(model, *oracle.my_part(batch)).backward()
        return zero.step()

    model = sharding.build("odd", 0)
    sharding.mse(model, *sharding.odd_batch(0)).backward()
    wanted = nn.utils.clip_grad_norm_(model.parameters(), 1)
    for norm in launch.run(run, 2, 0.1):
        assert norm.item() == pytest.approx(wanted.item(), rel=1e-12)
    assert launch.run(run, 2, float("inf")) == [None, None]


def test_parameter_groups_keep_their_own_options():
    def groups(model):
        return [
            {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.3},
            {"params": [p for p in model.parameters() if p.dim() < 2], "lr": 0.05},
        ]

    def make(groups):
        return torch.optim.AdamW(groups, lr=0.01)

    def run():
        model = sharding.build("odd", 0)
        zero = Zero1(model, make, groups=groups(model))
        for step in range(2):
            sharding.mse(model, *oracle.my_part(sharding.odd_batch(step))).backward()
            zero.step()
        return oracle.flat_weights(model)

    model = sharding.build("odd", 0)
    optimizer = make(groups(model))
    batches = [sharding.odd_batch(step) for step in range(2)]
    *_, wanted = oracle.one_process(model, batches, optimizer, sharding.mse)
    assert oracle.distance(launch.run(run, 2), wanted) < oracle.EQUAL


def sent(stage: int, parts: int) -> tuple[int, int, int]:
    """Payload of the collectives of a step; numbers in the rows, and those that stay gathered."""
    model = gpt.GPT(sharding.MODEL, seed=0)
    zero = sharding.sharded(stage, model, oracle.OPTIMIZERS["Adam"], "gpt")
    batch = [t[: 2 * parts] for t in sharding.PROBLEMS["gpt"][1](0)]
    numbers = sum(s.ranks * s.length for s in zero.shards)
    stay = sum(s.ranks * s.length for s in zero.rows[model]) if stage == 3 else 0
    for _ in range(2):
        with wire.counted() as counted:
            for part in zip(*(t.tensor_split(parts) for t in batch), strict=True):
                oracle.loss(model, *part).backward()
            zero.step()
    return sum(counted.payload.values()), numbers - stay, stay


@pytest.mark.parametrize("stage", sharding.STAGES)
@pytest.mark.parametrize("parts", [1, 3])
def test_the_payload_of_a_step_is_the_formula(stage, parts):
    for payload, numbers, stay in launch.run(sent, 2, stage, parts):
        how = {"data": 2, "stage": stage, "weight_bytes": 4, "gradient_bytes": 4}
        wanted = volumes.zero(parameters=numbers, micro_batches=parts, **how).total
        if stay:
            how["keep_gathered"] = True
            wanted += volumes.zero(parameters=stay, micro_batches=parts, **how).total
        assert payload / 2 == wanted  # (N-1)/N of it


def test_what_a_piece_of_a_row_cannot_serve_is_refused_by_name():
    def run(make, **options):
        model = sharding.build("odd", 0)
        with pytest.raises(InputError) as refused:
            Zero1(model, make, **{k: f(model) for k, f in options.items()})
        return str(refused.value)

    sgd = oracle.OPTIMIZERS["SGD"]
    (said,) = launch.run(run, 1, lambda groups: torch.optim.Adafactor(groups))
    assert "Adafactor" in said and "AdamW" in said
    (said,) = launch.run(run, 1, sgd, groups=lambda m: [{"params": list(m.first.parameters())}])
    assert "last.weight" in said and "in no group" in said
    (said,) = launch.run(run, 1, sgd, groups=lambda m: [{"params": [m.scale] * 2}])
    assert "in two groups" in said
    (said,) = launch.run(run, 1, sgd, groups=lambda m: [{"params": [nn.Parameter(torch.ones(1))]}])
    assert "not the module's" in said


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_a_parameter_without_gradient_is_named(stage):
    def run():
        model = Branches()
        zero = sharding.sharded(stage, model, oracle.OPTIMIZERS["SGD"], "branches")
        try:
            model(torch.ones(1, 4), "left").sum().backward()
            zero.step()
        except MissingGradients as missing:
            return missing.names, str(missing)

    wanted = [f"{name}.{kind}" for name in ("right", "spare") for kind in ("bias", "weight")]
    for names, said in launch.run(run, 2):
        assert names == wanted
        assert "requires_grad_(False)" in said and "find_unused" not in said  # no argument here


def traced(stage: int) -> tuple[list[Event], int]:
    """What a step leaves in the trace, and the payload of its collectives."""
    model, trace = gpt.GPT(sharding.MODEL, seed=0), Trace(dist.get_rank())
    zero = sharding.sharded(stage, model, oracle.OPTIMIZERS["SGD"], "gpt", trace=trace)
    with wire.counted() as counted:
        oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
        zero.step()
    return trace.events, sum(counted.payload.values())


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_the_trace_names_every_collective_and_the_wait_for_it(stage):
    for events, payload in launch.run(traced, 2, stage):
        sent = [e for e in events if e.kind == "communication"]
        waits = {e.what: e for e in events if e.kind == "idle"}
        assert sum(e.bytes for e in sent) == payload
        names = {e.what.rpartition(" of ")[2] for e in sent}
        layers = {f"blocks.{i}" for i in range(sharding.MODEL.layers)} | {"the rest"}
        rows, buckets = ({f"{word} {i}" for i in range(len(names))} for word in ("row", "bucket"))
        assert names == {1: rows, 2: buckets, 3: layers}[stage] and len(names) > 2
        assert {e.what.partition(" of ")[0] for e in sent} == {"all-gather", "reduce-scatter"}
        assert {e.what for e in sent} == {what.removeprefix("wait for ") for what in waits}


@pytest.mark.parametrize("most", [1, 2, 3])
def test_rows_leave_one_by_one_and_so_many_are_in_flight(most):
    def run():
        model = gpt.GPT(sharding.MODEL, seed=0)
        zero = sharding.sharded(1, model, oracle.OPTIMIZERS["SGD"], "gpt", in_flight=most)
        send, flying, left = Zero1._send, [], []

        def seen(self, row):
            send(self, row)
            flying.append(len(self.sent))
            left.append(sum(p.grad is not None for p in model.parameters()))

        Zero1._send = seen
        oracle.loss(model, *sharding.PROBLEMS["gpt"][1](0)).backward()
        zero.step()
        return flying, left, len(zero.sent)

    for flying, left, after in launch.run(run, 2):
        assert flying == [min(n + 1, most) for n in range(len(flying))] and len(flying) > 4
        assert left == sorted(left, reverse=True) and left[0] > left[-1] == 0
        assert after == 0


def mean_by_one_process(tokens, ranks, steps):
    """A bf16 GPT trained on the mean of the parts' bf16 gradients, formed and used in fp32."""
    model = gpt.GPT(sharding.MODEL, seed=0).bfloat16()
    master = [p.detach().float().clone() for p in model.parameters()]
    optimizer = torch.optim.Adam(master, lr=1e-3)
    for _ in range(steps):
        for weight in master:
            weight.grad = torch.zeros_like(weight)
        for rank in range(ranks):
            model.zero_grad()
            oracle.loss(model, *[t[2 * rank : 2 * rank + 2] for t in tokens]).backward()
            for weight, p in zip(master, model.parameters(), strict=True):
                weight.grad += p.grad / ranks
        optimizer.step()
        for weight, p in zip(master, model.parameters(), strict=True):
            p.data.copy_(weight)
    return torch.cat([weight.flatten() for weight in master])


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_fp32_master_weights_of_a_bf16_module_are_those_of_one_process(stage):
    tokens = sharding.PROBLEMS["gpt"][1](0)

    def run():
        model = gpt.GPT(sharding.MODEL, seed=0).bfloat16()
        make = lambda groups: torch.optim.Adam(groups, lr=1e-3)  # noqa: E731
        zero = sharding.sharded(stage, model, make, "gpt", master=True)
        rank = dist.get_rank()
        for _ in range(3):
            oracle.loss(model, *[t[2 * rank : 2 * rank + 2] for t in tokens]).backward()
            zero.step()
        return sharding.weights(zero), {s.shard.dtype for s in zero.shards}

    (wanted,) = launch.run(mean_by_one_process, 1, tokens, 2, 3)  # as many threads as a rank has
    for found, kinds in launch.run(run, 2):
        assert kinds == {torch.float32}
        assert torch.equal(found, wanted.to(found.dtype))


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_a_sharded_module_is_not_copied(stage):
    """The copy's hooks would train the original."""

    def run():
        model = sharding.build("odd", 0)
        sharded = sharding.sharded(stage, model, oracle.OPTIMIZERS["SGD"], "odd")
        for thing in (model, sharded):
            with pytest.raises(TypeError, match="a sharded module cannot be copied"):
                copy.deepcopy(thing)

    launch.run(run, 1)


@pytest.mark.parametrize("stage", sharding.STAGES)
def test_buffers_begin_as_rank_0_has_them(stage):
    """Without a forward in training, too."""

    def run():
        model = sharding.build("odd", 0)
        model.register_buffer("own", torch.tensor([dist.get_rank() + 1.0]))
        sharding.sharded(stage, model, oracle.OPTIMIZERS["SGD"], "odd")
        return model.own.item()

    assert launch.run(run, 2) == [1.0, 1.0]
