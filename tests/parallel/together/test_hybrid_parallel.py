"""All axes together by the oracle of one process, and by what they refuse."""

import re
from unittest import mock

import pytest
import together_cases as cases
import torch
from patience import PATIENCE
from together_cases import CLIP, CONTEXT, DATA, EXPERT, PIPELINE, SEQUENCE, TENSOR

from mathlib import launch
from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.model import oracle
from mathlib.parallel.experts import dispatch
from mathlib.parallel.pipeline.copies import Copies
from mathlib.parallel.pipeline.mail import Mail
from mathlib.parallel.sequences.ring import Ring
from mathlib.parallel.tensor import conjugates
from mathlib.parallel.together.hybrid_parallel import HybridParallel
from mathlib.parallel.together.updates import Updates
from mathlib.parallel.zero import flat_shards
from mathlib.schedule import orders

TWO = {  # axes two by two, on four ranks: model, layout
    "pipeline, data": ("gpt", PIPELINE | DATA),
    "pipeline, context": ("gpt", PIPELINE | CONTEXT),
    "pipeline, expert": ("experts", PIPELINE | DATA | EXPERT),
    "pipeline, tensor": ("modern", PIPELINE | TENSOR),
    "data, context": ("modern", DATA | CONTEXT | {"micro_batches": 2}),
    "data, expert": ("experts", {"data": 4} | EXPERT),
    "data, tensor": ("gpt", DATA | TENSOR | {"micro_batches": 2}),
    "context, expert": ("experts", {"context": 4} | EXPERT),
    "context, tensor": ("gpt", CONTEXT | TENSOR | SEQUENCE),
    "expert, tensor": ("shared", DATA | TENSOR | SEQUENCE | EXPERT | {"expert_tensor": 1}),
}
THREE = {  # three by three, on eight
    "pipeline, data, context": ("gpt", PIPELINE | DATA | CONTEXT),
    "pipeline, data, expert": ("experts", PIPELINE | EXPERT | {"data": 4, "micro_batches": 2}),
    "pipeline, data, tensor": ("gpt", PIPELINE | DATA | TENSOR),
    "pipeline, context, expert": ("experts", PIPELINE | CONTEXT | DATA | EXPERT),
    "pipeline, context, tensor": ("modern", PIPELINE | CONTEXT | TENSOR | SEQUENCE),
    "pipeline, expert, tensor": ("experts", PIPELINE | DATA | TENSOR | SEQUENCE | EXPERT),
    "data, context, expert": ("experts", {"data": 4} | CONTEXT | EXPERT | {"expert": 4}),
    "data, context, tensor": ("modern", DATA | CONTEXT | TENSOR),
    "data, expert, tensor": ("experts", {"data": 4} | TENSOR | SEQUENCE | EXPERT),
    "context, expert, tensor": (
        "shared",
        DATA | CONTEXT | TENSOR | SEQUENCE | {"expert": 4, "expert_tensor": 1},
    ),
}


def highest(layout, name):
    """The highest ZeRO stage that goes with a layout."""
    return 2 if name in ("experts", "shared") else 3


def cases_of(layouts, sharded):
    """All by SGD, to which no factor is hidden, with ZeRO stages in turns; some by Adam with the
    highest stage and a bounded norm.
    """
    found = []
    for number, (name, layout) in enumerate(layouts.values()):
        zero = {"zero": number % (highest(layout, name) + 1)}
        found.append((name, layout | zero, "SGD", {}))
    for name, layout in map(layouts.get, sharded):
        found.append((name, layout | {"zero": highest(layout, name)}, "Adam", CLIP))
    return found


def test_two_axes_are_one_process_after_every_step():
    """And by other schedules, and with recomputation."""
    adam = ("pipeline, data", "data, expert", "context, tensor")
    four, looped = {"micro_batches": 4}, {"chunks": 2, "micro_batches": 2}
    found = [
        ("deep", PIPELINE | DATA | looped, "SGD", CLIP | {"schedule": "interleaved"}),
        ("untied", PIPELINE | DATA | four, "Adam", {"schedule": "gpipe"}),
        ("gpt", PIPELINE | TENSOR | {"recompute": "full"}, "SGD", {}),
        ("gpt", CONTEXT | DATA | {"recompute": "selective", "zero": 3}, "SGD", CLIP),
    ]
    for zero, name in ((0, "zb-v"), (0, "dualpipe"), (1, "dualpipe")):
        layout = PIPELINE | CONTEXT | four | {"zero": zero}
        found.append(("deep", layout, "SGD", CLIP | {"schedule": name}))
    assert not cases.wrong(4, cases_of(TWO, adam) + found)


def test_three_axes_are_one_process_after_every_step():
    """And heads fewer than tensor ranks beside another axis."""
    adam = ("pipeline, data, tensor", "pipeline, context, expert", "data, expert, tensor")
    few = [("modern", DATA | {"tensor": 4, "zero": 1}, "Adam", CLIP)]
    assert not cases.wrong(8, cases_of(THREE, adam) + few)


def test_a_step_may_be_several_runs():
    """Of micro-batches whose numbers of tokens that count are told."""

    def run(weights):
        way = cases.make(("gpt", PIPELINE | {"micro_batches": 2}, "SGD", {}))
        tokens, targets = cases.tokens(0)
        counted = int((targets >= 0).sum())
        for part in (slice(0, 3), slice(3, None)):
            way.run(tokens[part], targets[part], counted)
        way.update()
        return cases.difference(way, weights)[0].item()

    assert max(launch.run(run, 2, cases.by_one("gpt", "SGD")[0][1])) < oracle.EQUAL


def faults():
    """What is left out, and in which case of the oracle it must be seen."""

    def take(real):
        return lambda self, action: (
            lambda given, time: (None if given is None else given * 0.5, time)
        )(*real(self, action))

    def nothing(*_):
        return None

    def not_passed(self, give):
        return torch.zeros_like(give), ()

    def alone(x, group):
        return x.clone()

    def first(x, group):
        return conjugates.own_tokens(x, group)

    def no_way_back(ctx, *gradients):
        return gradients[0].new_zeros(sum(ctx.back[1]), gradients[0].shape[1]), None, None, None

    def own_alone(self, dtype):
        self.work.wait()
        return self.row.view(self.ranks, -1)[0].to(dtype)

    def own_count(self, targets):
        return int((targets >= 0).sum())

    experts = ("experts", {"data": 4} | EXPERT)
    back = staticmethod(no_way_back)
    return {
        "pipeline's messages": (TWO["pipeline, data"], Mail, "take", take(Mail.take)),
        "data's sums": (("gpt", {"data": 4}), Copies, "add_up", nothing),
        "ZeRO's sums": (("gpt", {"data": 4, "zero": 1}), flat_shards.Scattering, "wait", own_alone),
        "the tie": (("gpt", PIPELINE | DATA | {"zero": 1}), Copies, "add_up", nothing),
        "context's keys": (TWO["data, context"], Ring, "pass_on", not_passed),
        "context's tokens": (TWO["data, context"], HybridParallel, "_count", own_count),
        "tensor's sums": (TWO["data, tensor"], conjugates, "reduced", alone),
        "sequence's sums": (TWO["context, tensor"], conjugates, "scattered", first),
        "partial gradients": (TWO["context, tensor"], torch.Tensor, "register_hook", nothing),
        "experts' way back": (experts, dispatch._AllToAll, "backward", back),
        "experts' copies": (experts, Copies, "add_up", nothing),
        "the norm": (TWO["pipeline, data"], Updates, "clip", nothing),
    }


def test_with_an_exchange_left_out_they_are_apart():
    options = {name: CLIP if name == "the norm" else {} for name in faults()}
    given = {n: (*fault[0], "SGD", options[n]) for n, fault in faults().items()}
    wanted = {name: cases.wanted(case)[:1] for name, case in given.items()}

    def run():
        found = {}
        for name, (_, where, attribute, new) in faults().items():
            way = cases.make(given[name])  # what starts alike may not be left out
            with mock.patch.object(where, attribute, new):
                if name == "partial gradients":
                    way = cases.make(given[name])
                found[name] = cases.trained_apart(way, wanted[name])
        return found

    by_rank = launch.run(run, 4, timeout=PATIENCE)
    far = {name: torch.tensor([one[name] for one in by_rank]).max().item() for name in given}
    assert len(far) == 12 and min(far.values()) > 1e-6, far


REFUSED = {
    "layout of data 4 * context 1 * tensor 1 * pipeline 1 = 4 ranks: expected 2": (
        "gpt",
        {"data": 4},
        {},
    ),
    "schedule of 2 stages and 3 micro-batches: expected those of the layout, 1 and 1": (
        "gpt",
        {},
        {"schedule": orders.make("1f1b", stages=2, micro_batches=3)},
    ),
    "schedule = 'pipedream': its stages update at different times": (
        "gpt",
        PIPELINE,
        {"schedule": "pipedream"},
    ),
    "zero = 2 with schedule = 'zb-h1', which puts off the weights' gradients": (
        "gpt",
        PIPELINE | {"zero": 2},
        {"schedule": "zb-h1"},
    ),
    "tensor = 2 with schedule = 'zb-h1'": ("gpt", PIPELINE | TENSOR, {"schedule": "zb-h1"}),
    "tensor = 2 without sequence_parallel: each tensor rank would send": ("experts", TENSOR, {}),
    "shard = 1: expected all 2 ranks": ("gpt", DATA | {"zero": 1, "shard": 1}, {}),
    "zero = 3 with experts: a layer's weights come and go": ("experts", DATA | {"zero": 3}, {}),
    "expert = 2: small has no experts": ("gpt", DATA | EXPERT, {}),
    "layer 0 has latent heads": ("latent", CONTEXT, {}),
    "clip = -1": ("gpt", DATA, {"clip": -1}),
    "attention of a Modern = 'flash'": ("modern", DATA, {"attention": "flash"}),
}


def test_what_does_not_go_together_is_refused_with_the_reason():
    def run():
        for words, (name, layout, options) in REFUSED.items():
            make = oracle.OPTIMIZERS["SGD"]
            with pytest.raises(InputError, match=re.escape(words)):
                HybridParallel(cases.MODELS[name], Layout(**layout), make, **options)

    launch.run(run, 2)
