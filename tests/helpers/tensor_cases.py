"""What the tests of tensor parallelism share, in a module that ranks can import."""

import contextlib
import copy
from functools import cache
from itertools import product
from unittest import mock

import pytest
import torch
from pipelines import batch

from mathlib import launch, specs
from mathlib.meters import wire
from mathlib.model import gpt, llama, modern, oracle
from mathlib.parallel.plain import sequence_parallel, tensor, vocabulary
from mathlib.parallel.tensor.tensor_parallel import TensorParallel
from mathlib.traffic import comm, volumes

STEPS, SEQUENCES, TOKENS = 3, 5, 12
ODD = {"layers": 2, "width": 24, "heads": 4, "context": TOKENS, "vocab": 61}
GATED = specs.find_model("llama3-8b").but(
    **ODD, padded_vocab=61, kv_heads=2, head_dim=6, ffn_width=25
)
MODELS = {
    "gpt": (gpt.GPT, gpt.small(**ODD, ffn_width=41)),
    "untied": (gpt.GPT, gpt.small(**ODD, ffn_width=41, tied=False)),
    "many heads": (gpt.GPT, gpt.small(**ODD | {"heads": 12})),
    "grouped": (llama.Llama, GATED),
    "normed": (
        modern.Modern,
        GATED.but(query_key_norm="head", qkv_bias=True, tied=True, head_dim=12),
    ),
    "even": (llama.Llama, GATED.but(ffn_width=28)),
    "one key": (llama.Llama, GATED.but(kv_heads=1)),
}
WAYS = {
    "tensor": (tensor.cut, oracle.loss),
    "vocabulary": (vocabulary.cut, vocabulary.loss),
    "sequence": (sequence_parallel.cut, vocabulary.loss),
}


STURDY = {
    "sturdy": {},
    "sturdy sequence": {"sequence_parallel": True},
    "sturdy chunked": {"sequence_parallel": True, "chunked": True},
}


def tokens(step):
    found = batch(step, SEQUENCES, context=TOKENS)
    return [t % 61 if i == 0 else t.where(t < 0, t % 61) for i, t in enumerate(found)]


def build(name):
    kind, shape = MODELS[name]
    return kind(shape).double()


@cache
def by_one(name, optimizer):
    """Loss and weights by name before and after each step of one process."""
    model, found = build(name), []
    made = oracle.OPTIMIZERS[optimizer](model.parameters())
    for step in range(STEPS):
        loss = oracle.loss(model, *tokens(step))
        made.zero_grad()
        loss.backward()
        made.step()
        found.append((loss.item(), copy.deepcopy(model.state_dict())))
    return found


def cut(way, name):
    if way in STURDY:
        model = TensorParallel(build(name), **STURDY[way])
        return model, lambda step: model.loss(*tokens(step))
    model = WAYS[way][0](build(name))
    return model, lambda step: WAYS[way][1](model, *tokens(step))


def apart(way, name, optimizer, wanted):
    """How far this rank's losses and weights are from its part of what one process has."""
    model, loss_of = cut(way, name)
    made, whole, far = oracle.OPTIMIZERS[optimizer](model.parameters()), build(name), []
    for step, (loss, weights) in enumerate(wanted):
        found = loss_of(step)
        made.zero_grad()
        found.backward()
        made.step()
        far += [(found - loss).abs(), difference(way, model, whole, weights)]
    return torch.stack(far).max().item()


def difference(way, model, whole, weights):
    """Of a rank's weights from its part of one process's: of the sturdy, joined, from all."""
    whole.load_state_dict(weights)
    mine, wanted = model.state_dict(), dict(whole.named_parameters())
    if way in STURDY:
        mine = model.whole_weights()
    else:
        wanted = WAYS[way][0](copy.deepcopy(whole)).state_dict()
    assert mine.keys() == wanted.keys()
    return torch.stack([(p - wanted[n]).abs().max() for n, p in mine.items()]).max().detach()


def cases(names, ways=tuple(WAYS)):
    return list(product(ways, names, oracle.OPTIMIZERS))


def all_apart(cases):
    return [apart(*case) for case in cases]


def wrong(ranks, cases):
    """The cases (way, model, optimizer) in which a rank is not where one process is."""
    given = [(way, name, optimizer, by_one(name, optimizer)) for way, name, optimizer in cases]
    far = [max(found) for found in zip(*launch.run(all_apart, ranks, given), strict=True)]
    return [(d, case) for d, case in zip(far, cases, strict=True) if not d < oracle.EQUAL]


def broken(way, name, faults):
    """How far a rank is after one step under each fault: (object, attribute, what it becomes)."""
    found = []
    for fault in faults:
        with contextlib.ExitStack() as stack:
            for where, attribute, new in fault:
                stack.enter_context(mock.patch.object(where, attribute, new))
            found.append(apart(way, name, "SGD", by_one(name, "SGD")))
    return found


def sent(way, name):
    """Bytes that this rank sends in a step, by its program, by the system."""
    model, loss_of = cut(way, name)
    loss_of(0).backward()  # opens connections
    with wire.sent() as found:
        loss_of(0).backward()
    return found.program, found.system


def predicted(way, name, ranks):
    """The same by the formula."""
    shape, split = MODELS[name][1], "sequence" in way or "chunked" in way
    of = {"tensor": ranks, "micro_batch": SEQUENCES, "bytes_per_element": 8}
    of |= {"sequence_parallel": split, "regather": split and way in STURDY}
    total = volumes.tensor_parallel(shape, **of).total
    if way != "tensor":
        total += volumes.vocabulary_parallel(shape, **of, loss_bytes=8).total
    names = ("norm", "before", "out.bias", "down.bias") if split else (".norms.",)
    alike = sum(p.numel() for n, p in build(name).named_parameters() if any(w in n for w in names))
    return total + comm.sent("all-reduce", payload=8 * alike, ranks=ranks)


def check_bytes(ranks, cases):
    """Over all ranks, of which a sum's parts may differ by a number."""
    by_rank = launch.run(lambda: [sent(*case) for case in cases], ranks)
    for case, found in zip(cases, zip(*by_rank, strict=True), strict=True):
        program, system = (sum(way) for way in zip(*found, strict=True))
        assert program == pytest.approx(ranks * predicted(*case, ranks), rel=1e-12), case
        assert system == pytest.approx(program, rel=1e-12), case
