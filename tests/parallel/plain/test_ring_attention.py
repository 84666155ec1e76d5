"""Plain ring attention by the oracle of one process, by its bytes, and what others print of it."""

import pytest
import sequence_cases as cases
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

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


def printed(q, k, v, ranks, own_masked=False, skipping=False):
    """Causal ring attention as a book of 2025 prints it, with the mask it leaves undefined: a block
    is masked if it does not begin at 0, and shifted by its own maximum.
    """
    out, places = torch.zeros_like(v), torch.arange(len(q)).chunk(ranks)
    for r, mine in enumerate(places):
        top, total = torch.full((len(mine), 1), -torch.inf).to(q), torch.zeros(len(mine), 1).to(q)
        for step in range(ranks):
            theirs = places[(r - step) % ranks]
            if skipping and theirs[0] > mine[-1]:
                continue
            scores = q[mine] @ k[theirs].T * q.shape[1] ** -0.5
            if theirs[0] > 0 or own_masked:
                scores = scores.masked_fill(theirs > mine[:, None], -torch.inf)
            here = scores.amax(1, keepdim=True)
            larger = torch.maximum(top, here)
            weights, old, new = (scores - here).exp(), (top - larger).exp(), (here - larger).exp()
            total = total * old + weights.sum(1, keepdim=True) * new
            out[mine] = out[mine] * old + weights @ v[theirs] * new
            top = larger
        out[mine] /= total
    return out


def test_a_printed_ring_is_no_number_in_9_of_12_rows_and_its_first_rank_sees_the_future():
    draw = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 12, 5, generator=draw, dtype=torch.float64)
    wanted = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    found = printed(q, k, v, 4)
    assert found.isnan().any(1).tolist() == [True] * 9 + [False] * 3
    assert torch.allclose(found[9:], wanted[9:])
    leaking = printed(q, k, v, 4, skipping=True)  # what the first rank's block would have been
    assert (leaking - wanted).abs().amax(1).gt(1e-6).tolist() == [True] * 2 + [False] * 10
    assert torch.allclose(printed(q, k, v, 4, own_masked=True, skipping=True), wanted)


def test_a_step_is_twice_the_work_that_is_printed():
    """Two products of c x c scores with the width H: 4 c^2 H, not 2 c^2 H."""
    c, H = 6, 10
    q, k, v = torch.randn(3, 1, 2, c, H // 2)
    with FlopCounterMode(display=False) as counted:
        ring_attention.scores(q, k, False) @ v
    assert counted.get_total_flops() == 4 * c * c * H


def test_gradients_in_16_bits_that_do_not_go_home_are_30_percent_short_on_8_ranks():
    model = cases.shape(8)
    ring_sends = volumes.context_parallel(model, context=8, gradient_bytes=4)
    printed_bytes = 3 * ring_sends.amount("forward")  # K, V forward; K, V, dK, dV backward
    assert printed_bytes / ring_sends.total == pytest.approx(0.7)
