"""Plain ring attention by the oracle of one process, and by its bytes."""

import pytest
import sequence_cases as cases
import torch

from mathlib import launch
from mathlib.model import gpt, oracle
from mathlib.parallel.plain import ring, ring_attention
from mathlib.traffic import volumes

ORDERS = ("ring", "zigzag")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    model = cases.shape(ranks)
    assert not cases.apart(ranks, [(w, model, o) for w in ORDERS for o in oracle.OPTIMIZERS])


def left_out(way, what):
    """Weights after a step with one part of the mechanism left out."""
    pairs, scores, backward = ring_attention.pairs, ring_attention.scores, ring_attention.Ring
    start, loss, backward = gpt.GPT.forward, ring_attention.RingAttention.loss, backward.backward

    def alone(order, r, source, P):
        return pairs(order, r, source, P) if r == source else iter(())

    def to_others(ctx, arrived):  # what the keys and values of others' tokens are told
        dq, *dkv, _, _ = backward(ctx, arrived)
        return dq, *(d * 0.5 for d in dkv), None, None

    def own_mean(self, tokens, targets):
        r, P = ring.place(None)
        places = torch.arange(tokens.shape[1]).chunk(
            len(ring_attention.chunks(self.order, 0, P)) * P
        )
        mine = torch.cat([places[c] for c in ring_attention.chunks(self.order, r, P)])
        own, every = (targets[:, mine] >= 0).sum(), (targets >= 0).sum()
        return loss(self, tokens, targets) * every / (P * own.clamp(min=1))

    broken = {
        "blocks of others": (ring_attention, "pairs", alone),
        "the mask": (ring_attention, "scores", lambda q, k, same: scores(q, k, False)),
        "dK, dV": (ring_attention.Ring, "backward", staticmethod(to_others)),
        "places": (gpt.GPT, "forward", lambda self, tokens, places=None: start(self, tokens)),
        "weights of means": (ring_attention.RingAttention, "loss", own_mean),
        "the average": (ring_attention.RingAttention, "average", lambda self: None),
    }
    if what:
        setattr(*broken[what])
    return list(broken), cases.by_ranks(way, cases.shape(3), steps=1)[0]


@pytest.mark.parametrize("way", ORDERS)
def test_with_a_part_left_out_they_are_apart(way):
    (wanted,) = cases.by_one(cases.shape(3), steps=1)
    (parts, _), *_ = launch.run(left_out, 3, way, "")
    far = {
        w: oracle.distance([x for _, x in launch.run(left_out, 3, way, w)], wanted) for w in parts
    }
    assert len(far) == 6 and min(far.values()) > 1e-6, far


@pytest.mark.parametrize("ranks", [2, 3])
def test_bytes_are_those_of_the_formula_and_of_the_system(ranks):
    kinds = [(way, dtype) for way in ORDERS for dtype in (torch.float64, torch.bfloat16)]
    model = cases.shape(ranks)
    for found in launch.run(lambda: [cases.sent(way, model, kind) for way, kind in kinds], ranks):
        for (_, kind), (program, system) in zip(kinds, found, strict=True):
            wanted = volumes.context_parallel(
                model,
                context=ranks,
                micro_batch=cases.BATCH,
                bytes_per_element=kind.itemsize,
                gradient_bytes=max(4, kind.itemsize),
            )
            assert program == system == wanted.total
