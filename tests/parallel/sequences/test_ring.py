"""The ring beside torch's own, its bytes, what it keeps, and its law by a virtual clock."""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from mathlib import launch
from mathlib.meters import live, wire
from mathlib.model import gpt
from mathlib.parallel.sequences import ring
from mathlib.schedule import ring_order
from mathlib.traffic import volumes
from mathlib.trials import sequences_torch

ORDERS = ring_order.ORDERS
B, HEADS, KV_HEADS, OWN, WIDTH = 2, 4, 2, 6, 8


def whole(ranks, dtype=torch.float64, kv_heads=KV_HEADS):
    """Queries, keys, values and the gradient that comes back, of all ranks' tokens."""
    draw = torch.Generator().manual_seed(ranks)
    heads = (HEADS, kv_heads, kv_heads, HEADS)
    shapes = [(B, a, OWN * ranks, WIDTH) for a in heads]
    return [torch.randn(s, generator=draw, dtype=torch.float64).to(dtype) for s in shapes]


def mine(tensors, order):
    r, N = dist.get_rank(), dist.get_world_size()
    held = ring_order.places(order, ranks=N, rank=r, tokens=tensors[0].shape[2])
    places = torch.tensor([place for one in held for place in one])
    return places, [x[:, :, places].contiguous() for x in tensors]


def attended(attention, q, k, v, given):
    """The result, and the gradients of queries, keys and values."""
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out = attention(*leaves)
    out.backward(given)
    return [out.detach(), *(x.grad for x in leaves)]


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def far(attention, order, dtype, kv_heads):
    """From torch's attention on the whole sequences, the farthest number."""
    tensors = whole(dist.get_world_size(), dtype, kv_heads)
    places, own = mine(tensors, order)
    found = attended(attention, *own)
    wanted = attended(sdpa, *(x.double() for x in tensors))
    pairs = zip(found, wanted, strict=True)
    return max((one - all_[:, :, places]).abs().max().item() for one, all_ in pairs)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_it_is_attention_to_the_whole_sequence_and_so_is_torchs_own(ranks):
    def run():
        found = {}
        for order in ORDERS:
            for kernel in ("flash", "written"):
                own = ring.Ring(order, kernel=kernel)
                found[order, kernel] = far(own, order, torch.float64, KV_HEADS)
                found[order, kernel, "bf16"] = far(own, order, torch.bfloat16, 1)
            # torch adds up in fp32 whatever comes, and knows no grouped heads on a CPU
            found[order, "torch"] = far(
                sequences_torch.ring_attention(order), order, torch.float64, HEADS
            )
        return found

    limits = {"flash": 1e-12, "written": 1e-12, "torch": 1e-5, "bf16": 0.1}
    for found in launch.run(run, ranks):
        assert len(found) == 10
        assert all(distance < limits[case[-1]] for case, distance in found.items()), found


def sent(attention, order, dtype, kv_heads=HEADS):
    """Bytes of this rank's messages forward and backward, by its program and by the system."""
    _, (q, k, v, given) = mine(whole(dist.get_world_size(), dtype, kv_heads), order)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    for _ in range(2):  # connections are opened by the first
        with wire.tcp() as forward, wire.counted() as program:
            out = attention(*leaves)
        with wire.tcp() as backward, wire.counted() as again:
            out.backward(given)
    return program, again, [forward.sent, backward.sent]


@pytest.mark.parametrize("ranks", [2, 3])
def test_bytes_are_those_of_the_formula_of_the_system_and_of_torch(ranks):
    """Gradients go in 32 bits, and go home; torch gathers all blocks at once, which is as much."""
    kinds = [(order, dtype) for order in ORDERS for dtype in (torch.float64, torch.bfloat16)]

    def run():
        ours = []
        for order, kind in kinds:
            *programs, system = sent(ring.Ring(order), order, kind, KV_HEADS)
            assert system == [program.on_wire for program in programs]
            ours.append([program.sent for program in programs])
        return ours, [sent(sequences_torch.ring_attention(o), o, torch.bfloat16)[2] for o in ORDERS]

    def wanted(kind, kv_heads):
        shape = gpt.small(1, HEADS * WIDTH, HEADS, context=OWN * ranks, kv_heads=kv_heads)
        sizes = {"bytes_per_element": kind.itemsize, "gradient_bytes": max(4, kind.itemsize)}
        layer = volumes.context_parallel(shape, context=ranks, micro_batch=B, **sizes)
        return [layer["forward"], layer["backward"]]

    gathered, exchanged = (ranks - 1) * 288, (ranks - 1) * 144  # what gloo adds to a collective
    headers = [gathered, gathered + ranks * exchanged]
    for ours, theirs in launch.run(run, ranks):
        assert ours == [wanted(kind, KV_HEADS) for _, kind in kinds]
        forward, backward = wanted(torch.bfloat16, HEADS)
        assert theirs == [[forward + headers[0], backward + headers[1]]] * len(ORDERS)


class Counting:
    """A virtual clock: what every block takes, in scores."""

    def __init__(self):
        self.blocks = []

    def __call__(self, scores):
        self.blocks.append(scores)
        return self

    __enter__ = __exit__ = lambda *_: None


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_by_a_virtual_clock_a_plain_ring_works_n_of_2n_less_1_and_zigzag_always(ranks):
    def run():
        found = {}
        for order in ORDERS:
            clock = Counting()
            _, own = mine(whole(ranks), order)
            attended(ring.Ring(order, watch=clock), *own)
            found[order] = clock.blocks
        return found

    ranks_found = launch.run(run, ranks)
    for order in ORDERS:
        steps = ring_order.step_scores(order, ranks=ranks, tokens=OWN * ranks)
        for r, found in enumerate(ranks_found):
            once = [step[r] for step in steps if step[r]]
            assert found[order] == once * 2  # forward, and backward
        busiest = max(sum(found[order]) for found in ranks_found)
        share = sum(sum(found[order]) for found in ranks_found) / ranks / busiest
        law = ring_order.efficiency(order, ranks=ranks, tokens=OWN * ranks)
        assert share == pytest.approx(law, rel=1e-15)


def most_alive(order):
    """The most bytes that forward and backward of the ring hold, beside what they were given."""
    _, (q, k, v, given) = mine(whole(dist.get_world_size(), torch.float32), order)
    meter, leaves = live.LiveMeter(), [x.requires_grad_() for x in (q, k, v)]
    with meter:
        for x in (*leaves, given):
            meter.follow(x, "weights")
        out = ring.Ring(order, kernel="written")(*leaves)
        out.backward(given)
        del out
    line = meter.timeline()
    return line.total(line.peak) - sum(x.nbytes for x in (*leaves, given))


def test_it_holds_no_more_on_more_ranks():
    """Two blocks at a time, however many go round: all-gathered, they would be as many as ranks."""
    for order in ORDERS:
        peaks = {n: max(launch.run(most_alive, n, order)) for n in (3, 4, 5)}
        assert len(set(peaks.values())) == 1, (order, peaks)
