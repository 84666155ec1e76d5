"""The event model beside real runs on real ranks: the same events in the same order, the same
bytes, and the same times by a clock that the messages carry.
"""

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.launch import lab
from mathlib.model import data, gpt
from mathlib.parallel import collectives as own
from mathlib.parallel import messages
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.plain import pipeline
from mathlib.schedule import events, orders, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Send, Wait, Work
from mathlib.schedule.times import Times

N, STAMP, PAYLOAD, WORK = 4, 1000, 4 * 4 * 6, 1e-6
CLUSTERS = {
    "one slow link": Cluster((2, 2), Link(400e6), Link(100e6), slow={(1, 2): Link(20e6)}),
    "one slow rank": Cluster((2, 2), Link(400e6), Link(100e6), speeds={2: 0.25}),
    "pauses": Cluster((2, 2), Link(400e6, 1e-7), Link(100e6, 5e-7)),
}


class Clock:
    """A rank's own time: it works and pauses without doing so, and messages bring the time."""

    def __init__(self):
        self.now, self.free, self.log, self.stamps = 0.0, {}, [], []

    def work(self, seconds):
        self.now += lab.here().seconds(seconds)
        self.log.append(Work(seconds))

    def send(self, piece, to, group, begin=messages.send):
        rank, link = self._world(to, group)
        message = begin(piece, to, group)
        self.now += link(rank).latency
        leaves = max(self.now, self.free.get(rank, 0.0))
        self.free[rank] = leaves + piece.nbytes / link(rank).bandwidth
        stamp = torch.tensor([self.free[rank]], dtype=torch.float64)
        self.stamps.append((stamp, dist.isend(stamp, group=group, group_dst=to, tag=STAMP)))
        self.log.append(Send(rank, piece.nbytes))
        return message

    def receive(self, piece, source, group, begin=messages.receive):
        return Arriving(self, begin(piece, source, group), source, group)

    def wait(self, source, group):
        stamp = torch.zeros(1, dtype=torch.float64)
        dist.recv(stamp, group=group, group_src=source, tag=STAMP)
        self.now = max(self.now, stamp.item())
        self.log.append(Wait(self._world(source, group)[0]))

    def end(self):
        messages.finish(*(message for _, message in self.stamps))
        return self.log, self.now

    def _world(self, rank, group):
        members = dist.get_process_group_ranks(group or dist.group.WORLD)
        return members[rank], lab.here().link


class Arriving:
    def __init__(self, clock, message, source, group):
        self.clock, self.message, self.source, self.group = clock, message, source, group

    def wait(self):
        self.message.wait()
        self.clock.wait(self.source, self.group)


def clocked(name):
    """A rank's log, and its clock at the end."""
    clock, x = Clock(), torch.ones(PAYLOAD // 4)
    nodes = [own.process_group_of([[0, 1], [2, 3]]), own.process_group_of([[0, 2], [1, 3]])]
    ways = {"ring": own.ring_all_reduce, "tree": own.tree_all_reduce}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "send", clock.send)
        patch.setattr(own, "receive", clock.receive)
        patch.setattr(lab.slow_wires.time, "sleep", lambda _: None)
        clock.work(WORK)
        if name == "hierarchical":
            own.hierarchical_all_reduce(x, nodes)
        else:
            ways[name](x)
    assert torch.equal(x, torch.full_like(x, N))
    return clock.end()


COLLECTIVES = {
    "ring": programs.ring(payload=PAYLOAD, ranks=N),
    "tree": programs.tree(payload=PAYLOAD, ranks=N),
    "hierarchical": programs.hierarchical(payload=PAYLOAD, ranks=N, ranks_per_node=2),
}


def untagged(program):
    return [step if isinstance(step, Work) else step._replace(tag=None) for step in program]


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_a_collective_sends_and_waits_as_its_program_says_and_ends_when_it_says(name, cluster):
    planned = programs.after([programs.work([WORK] * N), COLLECTIVES[name]])
    logs, clocks = zip(
        *launch.run(clocked, None, name, cluster=cluster, network="paced"), strict=True
    )
    assert list(logs) == planned
    assert list(clocks) == pytest.approx(events.run(planned, cluster).ends)


MODEL = gpt.small(layers=8, width=8, heads=2, context=8, vocab=len(data.vocabulary()), tied=False)
TIMES = Times(forward=WORK, backward=2 * WORK, size=2 * MODEL.context * MODEL.width * 4)


def staged(order):
    """The log and the clock of the plain pipeline, whose messages are torch's own."""
    schedule, clock = orders.make(order, stages=N, micro_batches=N), Clock()
    stage, took = dist.get_rank(), TIMES.of(schedule)
    pipe = pipeline.Pipeline(model_chunks.build(MODEL, schedule, stage), schedule, MODEL.width)
    do = {"F": pipe.forward, "B": pipe.backward}

    def working(action, given):
        clock.work(took[stage][action.kind][action.chunk])
        return do[action.kind](action, given)

    def receive(action, begin=pipe.receive):
        given = begin(action)
        if given is not None:
            clock.wait(schedule.receives_from(action), None)
        return given

    def send(action, made):
        if (target := schedule.sends_to(action)) is not None:
            message = clock.send(made, target, None, begin=torch_send)
            pipe.sent.append((message, made))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab.slow_wires.time, "sleep", lambda _: None)
        pipe.forward = pipe.backward = working
        pipe.receive, pipe.send = receive, send
        pipe.run(*data.batch(2 * N, MODEL.context))
    return clock.end()


def torch_send(made, target, group):
    return dist.isend(made, group=group, group_dst=target)


@pytest.mark.parametrize("order", ["gpipe", "1f1b", "interleaved"])
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_a_pipeline_sends_and_waits_as_its_program_says(order, cluster):
    planned = programs.pipeline(orders.make(order, stages=N, micro_batches=N), TIMES)
    logs, clocks = zip(
        *launch.run(staged, None, order, cluster=cluster, network="paced"), strict=True
    )
    assert [list(log) for log in logs] == [untagged(program) for program in planned]
    assert list(clocks) == pytest.approx(events.run(planned, cluster).ends)
