"""The timeline of a sharded step against the program: what it asks for, waits for and computes, in
which order, on a clock of the test's own, which no busy machine can change.
"""

from functools import partial

import pytest
import torch
from torch import nn

from mathlib import launch
from mathlib.model import oracle
from mathlib.parallel.zero.flat_shards import FlatShard, Scattering
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage2 import Zero2
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.traffic import comm, sharded_time

LAYERS, LAYER, OUTSIDE = 5, 4 * 72, 4 * 96  # bytes of a layer and of what stands in none
FORWARD, BACKWARD, HEAD = 1.0, 2.0, 0.5  # seconds of a layer, and between forward and backward
LATENCY = 0.125


class Stack(nn.Module):
    """Equal layers, and a parameter outside of them."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(12, 8))
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(LAYERS))

    def forward(self, x):
        x = x * self.scale
        for layer in self.layers:
            x = layer(x)
        return x.sum()


class Clock:
    """The rank's time, and its wire's."""

    def __init__(self, bandwidth, ranks):
        self.cost = partial(comm.time, ranks=ranks, bandwidth=bandwidth, latency=LATENCY)
        self.arrives, self.now, self.free = {}, 0.0, 0.0

    def ask(self, what, collective, size):
        self.free = max(self.now, self.free) + self.cost(collective, payload=size).total
        self.arrives[what] = self.free

    def wait(self, what):
        self.now = max(self.now, self.arrives.pop(what, 0.0))


def moved_by_the_program(clock, layer_rows):
    """Let the program's own calls move the clock."""
    begin, gather, publish = FlatShard.begin_gather, FlatShard.gather, FlatShard.publish
    start, wait, send = Scattering.__init__, Scattering.wait, Zero1._send

    def began(self):
        fresh = not (self.whole or self.arriving)
        begin(self)
        if fresh:
            clock.ask(self, "all-gather", self.row.nbytes)

    def gathered(self):
        gather(self)
        clock.wait(self)

    def published(self):
        clock.ask(self, "all-gather", self.row.nbytes)
        return publish(self)

    def started(self, row, *group, **named):
        start(self, row, *group, **named)
        clock.ask(self, "reduce-scatter", row.nbytes)

    def waited(self, dtype):
        clock.wait(self)
        return wait(self, dtype)

    def sent(self, row):
        clock.now += BACKWARD * (row in layer_rows)  # full when the layer's backward is done
        send(self, row)

    FlatShard.begin_gather, FlatShard.gather, FlatShard.publish = began, gathered, published
    Scattering.__init__, Scattering.wait, Zero1._send = started, waited, sent


def on_the_clock(stage, prefetch, micro_batches, bandwidth, ranks) -> float:
    """Seconds of the second step: in the first, stage 3 does not know which layer is the next."""
    model, make = Stack(), oracle.OPTIMIZERS["SGD"]
    if stage == 3:
        zero = Zero3(model, make, list(model.layers), prefetch=prefetch)
        own = {row for layer in model.layers for row in zero.rows[layer]}
    else:
        zero = Zero2(model, make, bucket_bytes=LAYER) if stage == 2 else Zero1(model, make)
        own = {row for row in zero.shards if row.row.nbytes == LAYER}
    clock = Clock(bandwidth, ranks)
    moved_by_the_program(clock, own)
    for layer in model.layers:
        layer.register_forward_hook(lambda *_: setattr(clock, "now", clock.now + FORWARD))
    for _ in range(2):
        clock.now = clock.free = 0.0
        for _ in range(micro_batches):
            loss = model(torch.ones(12, 8))
            clock.now += HEAD
            loss.backward()
            clock.now += LAYERS * BACKWARD * (stage == 1)
        zero.step()
    return max(clock.now, clock.free)


CASES = [
    (stage, prefetch, m, bandwidth)
    for stage in (1, 2, 3)
    for prefetch in ((0, 1, 2) if stage == 3 else (1,))
    for m in (1, 2)
    for bandwidth in (50.0, 150.0, 1000.0)  # the wire is the bottleneck, about even, the rank is
]


def all_cases(ranks) -> list[float]:
    originals = [(c, dict(vars(c))) for c in (FlatShard, Scattering, Zero1)]
    found = []
    for case in CASES:
        found.append(on_the_clock(*case, ranks))
        for kind, methods in originals:
            for name in ("begin_gather", "gather", "publish", "__init__", "wait", "_send"):
                if name in methods:
                    setattr(kind, name, methods[name])
    return found


@pytest.mark.parametrize("n", [2, 3])
def test_the_program_takes_as_long_as_its_timeline(n):
    for found in launch.run(all_cases, n, n):
        for seconds, (stage, prefetch, m, bandwidth) in zip(found, CASES, strict=True):
            line = sharded_time.step(
                stage=stage,
                layers=LAYERS,
                ranks=n,
                forward=LAYERS * FORWARD,
                backward=LAYERS * BACKWARD,
                head=HEAD,
                weights=LAYERS * LAYER,
                outside=OUTSIDE,
                bandwidth=bandwidth,
                latency=LATENCY,
                prefetch=prefetch,
                micro_batches=m,
            )
            assert seconds == pytest.approx(line.seconds), (stage, prefetch, m, bandwidth)
