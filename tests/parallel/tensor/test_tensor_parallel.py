"""The sturdy class by the oracle of one process, by what it refuses, and beside torch's own."""

import re

import pytest
import tensor_cases
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import saved, wire
from mathlib.model import gpt, modern, oracle
from mathlib.parallel.tensor import conjugates, split_matrices, split_words
from mathlib.parallel.tensor.tensor_parallel import TensorParallel
from mathlib.specs import Experts
from mathlib.traffic import comm, volumes

NAMES = {1: ["gpt"], 2: ["gpt", "normed"], 3: ["many heads"], 4: ["one key", "normed"]}


@pytest.mark.parametrize("ranks", NAMES)
def test_losses_and_weights_after_every_step_are_those_of_one_process(ranks):
    cases = tensor_cases.cases(NAMES[ranks], tensor_cases.STURDY)
    assert not tensor_cases.wrong(ranks, cases)


def test_each_mechanism_switched_off_is_seen():
    def run():
        real = dist.all_reduce

        def but_the_top(x, op=dist.ReduceOp.SUM, group=None):
            return None if op == dist.ReduceOp.MAX else real(x, op, group)

        alone = staticmethod(lambda x, group: x.clone())
        first = staticmethod(lambda x, group: conjugates.own_tokens(x, group))

        def everything(words, own):
            row = (words - own.start).clamp(0, len(own) - 1)
            return row, torch.zeros_like(row, dtype=torch.bool)

        faults = {
            "sum": ("sturdy", "gpt", (conjugates, "reduced", alone)),
            "words": ("sturdy", "gpt", (split_words, "here", everything)),
            "top": ("sturdy", "gpt", (dist, "all_reduce", but_the_top)),
            "scatter": ("sturdy sequence", "gpt", (conjugates, "scattered", first)),
            "tokens": ("sturdy sequence", "gpt", (torch.Tensor, "register_hook", lambda *_: None)),
            "norms": ("sturdy", "normed", (torch.Tensor, "register_hook", lambda *_: None)),
            "again": (
                "sturdy chunked",
                "normed",
                (split_matrices, "slope", lambda dy, x: dy.flatten(0, 1).T @ x.flatten(0, 1) / 2),
            ),
        }
        return {n: tensor_cases.broken(*f[:2], [[f[2]]])[0] for n, f in faults.items()}

    found = launch.run(run, 2)
    assert all(max(far[name] for far in found) > 1e-6 for name in found[0]), found


def test_query_key_norms_that_nobody_sums_leave_the_loss_right_and_the_gradient_wrong():
    """The trap: after one step's forward nothing shows, and the gradient is half of what it is."""

    def run(summed):
        if not summed:
            torch.Tensor.register_hook = lambda *_: None
        model, loss_of = tensor_cases.cut("sturdy", "normed")
        loss = loss_of(0)
        loss.backward()
        return loss.item(), {n: g for n, g in model.whole_gradients().items() if ".norms." in n}

    whole = tensor_cases.build("normed")
    loss = oracle.loss(whole, *tensor_cases.tokens(0))
    loss.backward()
    wanted = {n: p.grad for n, p in whole.named_parameters() if ".norms." in n}
    for summed in (True, False):
        for found, gradients in launch.run(run, 2, summed):
            assert abs(found - loss.item()) < oracle.EQUAL and gradients.keys() == wanted.keys()
            size = torch.stack([g.norm() for g in wanted.values()]).norm()
            off = torch.stack([(gradients[n] - g).norm() for n, g in wanted.items()]).norm() / size
            assert off < 1e-9 if summed else off > 0.1


REFUSED = {
    "tensor = 2: does not divide heads = 3; accepted: 1, 3": lambda: TensorParallel(
        gpt.GPT(gpt.small(width=24, heads=3))
    ),
    "model = a Linear: expected one of GPT, Llama, Modern": lambda: TensorParallel(
        torch.nn.Linear(2, 2)
    ),
    "experts = Experts(": lambda: TensorParallel(
        modern.Modern(tensor_cases.GATED.but(experts=Experts(4, 2, 8)))
    ),
    "chunked = True: expected sequence_parallel = True": lambda: TensorParallel(
        tensor_cases.build("gpt"), chunked=True
    ),
    "tensor = 2: does not divide tokens = 5": lambda: TensorParallel(
        tensor_cases.build("gpt"), sequence_parallel=True
    )(torch.zeros(1, 5, dtype=torch.long)),
}


def test_what_it_refuses():
    def run():
        for words, wrong in REFUSED.items():
            with pytest.raises(InputError, match=re.escape(words)):
                wrong()

    launch.run(run, 2)


def from_names(seed):
    """A model that is nowhere whole: its joined weights, and the most bytes while it was made."""
    with torch.device("meta"):
        shell = gpt.GPT(gpt.small(**tensor_cases.ODD))
    with saved.Storages(shell) as seen:
        model = TensorParallel(shell, seed=seed)
    own = sum(p.nbytes for p in model.parameters())
    return model.whole_weights(), seen.peak, own


def test_a_model_filled_by_name_is_the_same_on_every_degree():
    """And a rank never has more than its part, and one matrix that is being cut."""
    wanted = dict(gpt.GPT(gpt.small(**tensor_cases.ODD), seed=3).named_parameters())
    largest = max(p.nbytes for p in wanted.values())
    for ranks in (1, 2, 4):
        for weights, peak, own in launch.run(from_names, ranks, 3):
            assert weights.keys() == wanted.keys()
            assert all(torch.equal(weights[name], p) for name, p in wanted.items())
            assert own <= peak <= own + 3 * largest < 2 * own + 3 * largest


def recomputing(early):
    """Bytes of all-reduces in a step with full recomputation, with and without an early stop."""
    model = TensorParallel(gpt.GPT(gpt.small(**tensor_cases.ODD), recompute="full"))
    with torch.utils.checkpoint.set_checkpoint_early_stop(early):
        loss = model.loss(*tensor_cases.tokens(0))
        with wire.counted() as sent:
            loss.backward()
    return sent.payload["allreduce_"]


def test_full_recomputation_sends_two_more_or_one_where_it_stops_early():
    """The formula's six all-reduces a layer are Megatron's; torch's checkpoint stops once it has
    what the backward pass needs, before the sum at the layer's end: five.
    """
    shape, b = gpt.small(**tensor_cases.ODD), tensor_cases.SEQUENCES
    how = {"tensor": 2, "micro_batch": b, "bytes_per_element": 4, "recompute": "full"}
    parts = volumes.tensor_parallel(shape, **how)
    k = 4 * b * tensor_cases.TOKENS * shape.width
    behind = comm.sent("all-reduce", payload=k, ranks=2)  # the head's
    for early, found in ((False, 1), (True, 0.5)):
        wanted = parts["backward"] + found * parts["recomputation"] + behind
        assert launch.run(recomputing, 2, early)[0] == wanted


READERS = ("attention", "mlp")
PLAN = {
    **dict.fromkeys(("attention.query", "attention.key", "attention.value"), ColwiseParallel),
    **dict.fromkeys(("mlp.gate", "mlp.up"), ColwiseParallel),
    **dict.fromkeys(("attention.out", "mlp.down"), RowwiseParallel),
}


def by_torch(model, once):
    """torch's own: the same plan, in its words; `once`: what several matrices read is prepared
    for all of them.
    """
    mesh, same = init_device_mesh("cpu", (dist.get_world_size(),)), (Replicate(),)
    ready = PrepareModuleInput(input_layouts=same, desired_input_layouts=same)
    plan = {name: kind() for name, kind in PLAN.items()} | dict.fromkeys(READERS[:once], ready)
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    ends = {
        "tokens": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    return parallelize_module(model, mesh, ends)


def torch_backward(once):
    """Gradients of torch's class, and bytes of its all-reduces."""
    batch = tensor_cases.tokens(0)
    model = by_torch(tensor_cases.build("even"), once)
    with wire.counted() as sent, loss_parallel():
        oracle.loss(model, *batch).backward()
    gradients = {n: p.grad for n, p in model.named_parameters()}
    whole = {n: g.full_tensor() if isinstance(g, DTensor) else g for n, g in gradients.items()}
    return whole, sent.payload["all_reduce"]


def torch_and_ours():
    model, loss_of = tensor_cases.cut("sturdy", "even")
    with wire.counted() as sent:
        loss_of(0).backward()
    ours = model.whole_gradients(), sent.payload["allreduce_"]
    return [ours, torch_backward(0), torch_backward(2)]


def test_torch_says_the_same():
    """And reduces the gradient of what several matrices read once for each of them, seven times a
    layer, unless their common input is prepared; ours does so once. The loss's three numbers a
    token stand only in ours.
    """
    n = tensor_cases.SEQUENCES * tensor_cases.TOKENS
    for (wanted, sent), each, once in launch.run(torch_and_ours, 2):
        for found, _ in (each, once):
            assert found.keys() == wanted.keys()
            assert max((found[n] - wanted[n]).abs().max() for n in wanted) < oracle.EQUAL
        k = 8 * n * 24
        assert sent == (2 * 4 + 2) * k + 3 * 8 * n
        assert (each[1], once[1]) == ((2 * 7 + 2) * k, (2 * 4 + 2) * k)
