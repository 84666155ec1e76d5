"""Each knob does what its page says: counted, not read."""

import math
from dataclasses import replace

import pytest
import sharding
import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.meters.trace import Trace
from mathlib.model import gpt, oracle
from mathlib.parallel.zero.flat_shards import FlatShard
from mathlib.parallel.zero.mics import Mics
from mathlib.traffic import hierarchical

DEEP = replace(sharding.MODEL, layers=6)
MATRIX = 16 * 16  # the smallest weight of the blocks; biases and norms have 16 to 64


def mics_of(model, **options) -> Mics:
    return Mics(model, oracle.OPTIMIZERS["SGD"], list(model.blocks), **options)


def step(mics: Mics, parts: int = 1) -> torch.Tensor | None:
    for part in range(parts):
        oracle.loss(mics.module, *[t[:2] for t in sharding.PROBLEMS["gpt"][1](part)]).backward()
    return mics.step()


def small_tensors(whole_below: int) -> tuple[set, set, set, int, int]:
    """Names that lie in gathered rows, and in whole ones; the names of the small ones by their
    size; payload of the all-reduces of a step of three micro-batches; numbers in small tensors.
    """
    gathered = set()
    begin = FlatShard.begin_gather

    def seen(self):
        if not (self.whole or self.arriving):
            gathered.update(self.names.values())
        begin(self)

    FlatShard.begin_gather = seen
    mics = mics_of(gpt.GPT(DEEP), shard=2, whole_below=whole_below)
    kept = {name for row in mics.every_row() if row.kept for name in row.names.values()}
    small = {n: p.numel() for n, p in gpt.GPT(DEEP).named_parameters() if p.numel() < whole_below}
    step(mics)
    with wire.counted() as counted:
        step(mics, parts=3)
    pieces = sum(row.shard.nbytes for row in mics.shards if not row.kept)
    return gathered, kept, set(small), counted.payload["allreduce_"] - pieces, sum(small.values())


@pytest.mark.parametrize("whole_below", [0, MATRIX, MATRIX + 1])
def test_tensors_below_the_threshold_are_never_gathered_and_their_gradients_all_reduced(
    whole_below,
):
    for gathered, kept, small, reduced, numbers in launch.run(small_tensors, 4, whole_below):
        assert kept == small and not gathered & kept
        assert gathered | kept == {name for name, _ in gpt.GPT(DEEP).named_parameters()}
        assert reduced == 4 * numbers  # once a step, over all ranks
        assert bool(kept) == bool(whole_below)


def bucket_calls(bucket_elements: float) -> tuple[int, int, int, list[int]]:
    """Reduce-scatters of a backward and their payload, most gradients that waited, sizes of rows
    as they leave.
    """
    mics = mics_of(gpt.GPT(DEEP), shard=2, bucket_elements=bucket_elements)
    waiting = [0]
    send = Mics._send

    def seen(self, row):
        send(self, row)
        waiting.append(sum(len(packed) for _, packed in self.bucket))

    Mics._send = seen
    with wire.counted() as counted:
        oracle.loss(mics.module, *sharding.PROBLEMS["gpt"][1](0)).backward()
    sizes = [row.ranks * row.length for row in mics.shards]
    return counted.calls["alltoall_base_"], counted.payload["alltoall_base_"], max(waiting), sizes


def test_gradients_wait_until_the_bucket_is_full():
    def run():
        return [bucket_calls(bucket_elements) for bucket_elements in (0, 5000, math.inf)]

    for found in launch.run(run, 2):
        (at_once, sent, _, sizes), (some, same, waited, _), (one, too, most, _) = found
        filled, calls = 0, 0
        for size in sizes:
            filled += size
            if filled >= 5000:
                filled, calls = 0, calls + 1
        assert (at_once, some, one) == (len(sizes), calls + bool(filled), 1)
        assert 1 < some < at_once
        assert sent == same == too == 4 * sum(sizes)
        assert waited < 5000 and most == sum(sizes)


def live_peak(most_live: float, prefetch: int) -> tuple[int, int, int]:
    """Most weights whole at once, by the memory of the rows; gathers; weights that are left."""
    mics = mics_of(gpt.GPT(DEEP), shard=2, most_live=most_live, prefetch=prefetch)
    most, gathers = [0], [0]
    begin = FlatShard.begin_gather

    def held():
        rows = [row for row in mics.every_row() if row.row.untyped_storage().nbytes()]
        return sum(sum(row.sizes) for row in rows)

    def seen(self):
        gathers[0] += not (self.whole or self.arriving)
        begin(self)
        most[0] = max(most[0], held())

    FlatShard.begin_gather = seen
    step(mics)
    gathers[0] = 0
    step(mics)
    return most[0], gathers[0], held()


def test_no_more_weights_are_whole_than_the_limit():
    model = gpt.GPT(DEEP)
    layer = sum(p.numel() for p in model.blocks[0].parameters())
    every = sum(p.numel() for p in model.parameters())
    rest = every - DEEP.layers * layer
    limits = [rest + layer, rest + 2 * layer, rest + 3.5 * layer, math.inf]

    def run():
        return [live_peak(limit, 10) for limit in limits]

    for found in launch.run(run, 2):
        peaks, gathers, left = zip(*found, strict=True)
        assert peaks == (rest + layer, rest + 2 * layer, rest + 3 * layer, every)
        assert set(left) == {0} and set(gathers) == {1 + 2 * DEEP.layers}


class Scales(nn.Module):
    """Layers of 20, 25 and 40 numbers, called in any order."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1, n, bias=False) for n in (20, 25, 40))

    def forward(self, x, order):
        for i in order:
            x = self.layers[i](x).sum(-1, keepdim=True)
        return x


def test_what_was_gathered_ahead_gives_way_if_another_layer_is_next():
    def run():
        model, most = Scales(), [0]
        mics = Mics(model, oracle.OPTIMIZERS["SGD"], model.layers, shard=2, most_live=45)
        begin = FlatShard.begin_gather

        def seen(self):
            begin(self)
            most[0] = max(most[0], mics.live())

        FlatShard.begin_gather = seen
        for order in ((0, 1, 2), (0, 2, 1)):  # the second is not what was looked ahead to
            model(torch.ones(1, 1), order).sum().backward()
            mics.step()
        return most[0]

    assert launch.run(run, 2) == [45, 45]


def test_a_limit_that_no_layer_fits_is_refused_with_the_least():
    def run():
        with pytest.raises(InputError) as refused:
            mics_of(gpt.GPT(DEEP), shard=2, most_live=100)
        return str(refused.value)

    model = gpt.GPT(DEEP)
    layer = sum(p.numel() for p in model.blocks[0].parameters())
    least = sum(p.numel() for p in model.parameters()) - (DEEP.layers - 1) * layer
    assert f"most_live = 100: expected {least} or more" in launch.run(run, 2)[0]


def node_bytes(hierarchical: bool) -> tuple[int, int, int]:
    """Bytes a rank sent to the other node in a step; numbers gathered twice, and once."""
    model = gpt.GPT(gpt.small(layers=4, vocab=DEEP.vocab))
    mics = mics_of(model, shard=4, ranks_per_node=2, hierarchical=hierarchical)
    step(mics)
    with wire.sent_to() as sent:
        step(mics)
    out = wire.leaving(sent, dist.get_rank(), 2)
    rows = {part: sum(r.ranks * r.length for r in rows) for part, rows in mics.rows.items()}
    once = rows.pop(model)
    return out, sum(rows.values()), once


def test_gathers_between_nodes_first_send_less_from_node_to_node():
    """A whole step by the system's count: the knob is the gather's, scatters are in stages."""

    def run():
        return [node_bytes(True), node_bytes(False)]

    by_rank = launch.run(run, 4)
    for way, order in enumerate(("between nodes first", "ring")):
        _, layers, once = by_rank[0][way]
        gathers = hierarchical.all_gather(
            payload=4 * (2 * layers + once), ranks=4, ranks_per_node=2, order=order
        )
        scatters = hierarchical.reduce_scatter(
            payload=4 * (layers + once), ranks=4, ranks_per_node=2
        )
        for node in (0, 2):
            out = by_rank[node][way][0] + by_rank[node + 1][way][0]
            assert out == pytest.approx(
                gathers["to other nodes"] + scatters["to other nodes"], rel=0.01
            )


def test_the_norm_of_the_shards_is_the_norm_of_the_whole():
    """S16: over every degree, with small tensors, frozen and tied ones."""

    def run():
        found = []
        for shard in (1, 2, 4):
            model = sharding.build("odd", 0)
            mics = Mics(
                *(model, oracle.OPTIMIZERS["SGD"], model.layers()),
                **{"shard": shard, "whole_below": 6, "clip": 0.1},
            )
            sharding.mse(model, *oracle.my_part(sharding.odd_batch(0))).backward()
            norm = mics.step().item()
            found.append((norm, math.sqrt(gradient_after(mics, shard))))
        return found

    model = sharding.build("odd", 0)
    sharding.mse(model, *sharding.odd_batch(0)).backward()
    wanted = nn.utils.clip_grad_norm_(model.parameters(), 1).item()
    for found in launch.run(run, 4):
        for norm, after in found:
            assert norm == pytest.approx(wanted, rel=1e-12)
            assert after == pytest.approx(0.1, rel=1e-3)


def gradient_after(mics: Mics, shard: int) -> float:
    """The square of what SGD took in its first step: momentum's buffer is the clipped gradient."""
    total = torch.zeros((), dtype=torch.float64)
    for row in mics.shards:
        moved = mics.optimizer.state[row.shard]["momentum_buffer"].square().sum()
        total += moved * row.ranks / shard
    dist.all_reduce(total, group=mics.sharding)
    return total.item()


def traced() -> list[tuple[str, str, int]]:
    trace = Trace(dist.get_rank())
    mics = mics_of(gpt.GPT(sharding.MODEL), shard=2, trace=trace)
    step(mics)
    trace.events.clear()
    step(mics, parts=2)
    return sorted((e.start, e.what, e.kind, e.bytes) for e in trace.events)


def test_a_trace_of_one_step_shows_every_collective_with_its_bytes():
    """S03: two micro-batches on 2 x 2 ranks, in the order in which things begin."""
    model = gpt.GPT(sharding.MODEL)
    bytes = {
        f"blocks.{i}": 4 * sum(p.numel() for p in model.blocks[i].parameters()) for i in (0, 1)
    }
    bytes["the rest"] = 4 * sum(p.numel() for p in model.parameters()) - sum(bytes.values())
    forward = ["all-gather of the rest", "all-gather of blocks.0", "all-gather of blocks.1"]
    forward += ["forward of blocks.0", "forward of blocks.1"]
    backward = ["all-gather of blocks.1", "all-gather of blocks.0", "backward of blocks.1"]
    backward += ["reduce-scatter of blocks.1", "backward of blocks.0", "reduce-scatter of blocks.0"]
    backward += ["reduce-scatter of the rest"]
    end = [f"all-reduce of {row}" for row in ("blocks.1", "blocks.0", "the rest")]
    for events in launch.run(traced, 4):
        shown = [(what, size) for _, what, kind, size in events if kind != "idle"]
        assert [what for what, _ in shown] == 2 * (forward + backward) + end
        for what, size in shown:
            how, _, row = what.partition(" of ")
            wanted = {"all-reduce": bytes[row] / 2}.get(how, bytes[row] if "-" in how else 0)
            assert size == pytest.approx(wanted, abs=8)  # padding
