"""The event model beside the laboratory: collectives and pipelines of four ranks on two nodes, all
links alike, one slow, one slow rank. "Ours" is the model's time, "theirs" the run's; their ratio is
how many times longer the run takes than the model says.
"""

from collections.abc import Callable, Iterator

import rounds
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.launch import lab
from mathlib.model import data, gpt
from mathlib.parallel import collectives
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.schedule import events, orders, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Program
from mathlib.schedule.times import Times

RANKS, PAYLOAD, WORK = 4, 16_000_000, 0.1  # bytes; seconds of each rank before it sums
FAST, SLOW = Link(80e6), Link(20e6)
SHAPE = gpt.small(layers=4, width=64, context=64, vocab=len(data.vocabulary()), tied=False)
MICRO_BATCHES, EACH, NAP = 8, 8, 0.04  # sequences of a micro-batch, seconds of a forward
MESSAGE = EACH * SHAPE.context * SHAPE.width * 4
PACE = Times(forward=NAP, backward=2 * NAP, size=MESSAGE)
ALIKE = {"inside": FAST, "between": FAST}
CLUSTERS = {
    "alike": Cluster((2, 2), **ALIKE),
    "one slow port": Cluster((2, 2), **ALIKE, ports={0: SLOW}),
    "one slow link inside": Cluster((2, 2), **ALIKE, slow={(0, 1): SLOW}),
    "one slow rank": Cluster((2, 2), **ALIKE, speeds={1: 0.5}),
}


def summing(name: str) -> Callable[[], object]:
    nodes = [collectives.process_group_of(each) for each in ([[0, 1], [2, 3]], [[0, 2], [1, 3]])]
    x = torch.ones(PAYLOAD // 4)
    ways = {
        "ring": collectives.ring_all_reduce,
        "tree": collectives.tree_all_reduce,
        "hierarchical": lambda x: collectives.hierarchical_all_reduce(x, nodes),
    }

    def step() -> None:
        lab.time.sleep(lab.here().seconds(WORK))
        ways[name](x)

    return step


def piping() -> Callable[[], object]:
    schedule = orders.make("1f1b", stages=RANKS, micro_batches=MICRO_BATCHES)
    chunks, here = model_chunks.build(SHAPE, schedule, dist.get_rank()), lab.here()
    pace = Times(forward=here.seconds(NAP), backward=here.seconds(2 * NAP))
    pipe = Pipeline(chunks, schedule, torch.optim.SGD, width=SHAPE.width, pace=pace)
    return lambda: pipe.run(*data.batch(MICRO_BATCHES * EACH, SHAPE.context))


def race(name: str, count: int) -> tuple[str, list[float]]:
    step = piping() if name == "pipeline" else summing(name)
    return lab.here().place.way, rounds.on_ranks({name: step}, count, warm_up=1)[name]


def planned(name: str) -> list[Program]:
    if name == "pipeline":
        return programs.pipeline(
            orders.make("1f1b", stages=RANKS, micro_batches=MICRO_BATCHES), PACE
        )
    given = {"payload": PAYLOAD, "ranks": RANKS}
    given |= {"ranks_per_node": 2} if name == "hierarchical" else {}
    return programs.after([programs.work([WORK] * RANKS), getattr(programs, name)(**given)])


def rows(quick: bool) -> Iterator[dict]:
    for name in ("ring", "tree", "hierarchical", "pipeline"):
        for what, cluster in CLUSTERS.items():
            for network in (None, "paced"):
                count, how = 2 if quick else 5, {"cluster": cluster, "network": network}
                way, took = launch.run(race, None, name, count, **how, timeout=900)[0]
                model = events.run(planned(name), cluster, shared_ports=way == "namespaces")
                times = {"model": [model.total] * count, f"run, {way}": took}
                label = f"{name}, {what}"
                yield rounds.row(label, times, "model", f"run, {way}", least=round(min(took), 4))
