"""Four ranks on two nodes, whose links are held and of which one is slowed: what waits, beside the
event model.  Ranks sleep instead of computing, so that little depends on what the machine does.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.launch import lab
from mathlib.meters import stragglers
from mathlib.model import data, gpt
from mathlib.parallel import collectives
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.schedule import events, orders, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Program
from mathlib.schedule.times import Times

RANKS, PAYLOAD, WORK = 4, 8_000_000, 0.1  # bytes; seconds of each rank before it sums
FAST, SLOW = Link(80e6), Link(20e6)
SHAPE = gpt.small(layers=4, width=16, context=64, vocab=len(data.vocabulary()), tied=False)
MICRO_BATCHES, EACH, NAP = 8, 32, 0.03  # sequences of a micro-batch, seconds of a forward
MESSAGE = EACH * SHAPE.context * SHAPE.width * 4
PACE = Times(forward=NAP, backward=2 * NAP, size=MESSAGE)
ORDER = orders.make("1f1b", stages=RANKS, micro_batches=MICRO_BATCHES)
ALIKE: dict[str, Any] = {"inside": FAST, "between": FAST}
CLUSTERS = {
    "nothing": Cluster((2, 2), **ALIKE),
    "one slow port": Cluster((2, 2), **ALIKE, ports={0: SLOW}),
    "one slow link inside": Cluster((2, 2), **ALIKE, slow={(0, 1): SLOW}),
    "one slow rank": Cluster((2, 2), **ALIKE, speeds={1: 0.5}),
}
PATIENCE = 1.5  # seconds that PyTorch's barrier waits
WAYS = ("ring", "tree", "hierarchical", "pipeline")


def summing(name: str) -> Callable[[], object]:
    """A step that works and sums, on this rank."""
    nodes = [collectives.process_group_of(each) for each in ([[0, 1], [2, 3]], [[0, 2], [1, 3]])]
    x = torch.ones(PAYLOAD // 4)
    ways = {
        "ring": collectives.ring_all_reduce,
        "tree": collectives.tree_all_reduce,
        "hierarchical": lambda x: collectives.hierarchical_all_reduce(x, nodes),
    }

    def step() -> None:
        time.sleep(lab.here().seconds(WORK))
        ways[name](x)

    return step


def piping() -> Callable[[], object]:
    """A step of a pipeline, on this rank."""
    chunks, here = model_chunks.build(SHAPE, ORDER, dist.get_rank()), lab.here()
    pace = Times(forward=here.seconds(NAP), backward=here.seconds(2 * NAP))
    pipe = Pipeline(chunks, ORDER, torch.optim.SGD, width=SHAPE.width, pace=pace)
    return lambda: pipe.run(*data.batch(MICRO_BATCHES * EACH, SHAPE.context))


def stepping(name: str) -> Callable[[], object]:
    return piping() if name == "pipeline" else summing(name)


def planned(name: str) -> list[Program]:
    """The same step for the event model."""
    if name == "pipeline":
        return programs.pipeline(ORDER, PACE)
    given: dict[str, Any] = {"payload": PAYLOAD, "ranks": RANKS}
    given |= {"ranks_per_node": 2} if name == "hierarchical" else {}
    return programs.after([programs.work([WORK] * RANKS), getattr(programs, name)(**given)])


def _took(rounds: int) -> tuple[str, dict[str, float]]:
    """How links are held, and seconds of each way's shortest step, until the last is through."""
    steps = {name: stepping(name) for name in WAYS}
    took = dict.fromkeys(WAYS, 1e9)
    for turn in range(rounds + 1):  # the first opens connections
        for name, step in steps.items():
            dist.barrier()
            begin = time.perf_counter()
            step()
            end = torch.tensor(time.perf_counter() - begin)
            dist.all_reduce(end, dist.ReduceOp.MAX)
            took[name] = min(took[name], end.item()) if turn else took[name]
    return lab.here().place.way, took


class Beside(NamedTuple):
    """Seconds of a step by the event model and on ranks."""

    model: float
    run: float


def beside(what: str, rounds: int = 2, network: str | None = None) -> dict[str, Beside]:
    """Each way on one cluster."""
    on = CLUSTERS[what]
    way, took = launch.run(_took, None, rounds, cluster=on, network=network, timeout=100)[0]
    shared = way == "namespaces"
    return {name: Beside(modelled(name, on, shared), run) for name, run in took.items()}


def modelled(name: str, on: Cluster, shared_ports: bool = False) -> float:
    """Seconds of a step by the event model.  A collective's message leaves when its receiver asks
    for it; a pipeline asks ahead, while it computes.
    """
    how = {"shared_ports": shared_ports, "rendezvous": name != "pipeline"}
    return events.run(planned(name), on, **how).total


def slower(name: str) -> dict[str, float]:
    """How many times longer a step takes than with nothing slow, by the event model."""
    took = {what: modelled(name, on) for what, on in CLUSTERS.items()}
    return {what: one / took["nothing"] for what, one in took.items()}


def watched(rounds: int) -> stragglers.Watch:
    """A rank works and sums, and what it takes is measured."""
    x = torch.ones(PAYLOAD // 4)
    with stragglers.watch() as watch:
        for _ in range(rounds):
            with watch.computing():
                time.sleep(lab.here().seconds(WORK))
            collectives.ring_all_reduce(x)
    return watch


def named(on: Cluster, times: float = 1.5, rounds: int = 2) -> list[tuple[int, int | None]]:
    """Who holds up a ring by the meter: rank and None for its processor, or the rank that its link
    leads to.
    """
    watch = launch.run(watched, None, rounds, cluster=on, network="paced", timeout=120)[0]
    return sorted((one.rank, one.to) for one in watch.stragglers(on.node_of, times))


def told(found: Sequence[tuple[int, int | None]]) -> str:
    """Who holds the others up, in words."""
    ends = [f"rank {a}'s " + ("processor" if b is None else f"link to {b}") for a, b in found]
    return "; ".join(ends) or "nobody"


def _late(absent: int) -> None:
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() != absent:
        dist.all_reduce(torch.ones(1))
        return
    time.sleep(1000)


def hung(ranks: int = 3, absent: int = 2) -> list[str]:
    """What a run says that hangs since one rank does not come to the second sum."""
    for timeout in (6, 40):  # on a busy machine ranks may not have begun
        try:
            launch.run(_late, ranks, absent, watch=True, timeout=timeout, echo=False)
        except launch.RankTimeout as error:
            if lines := [line for line in str(error).splitlines() if "waits" in line]:
                return lines
    raise RuntimeError("nobody was told to wait for the rank that never comes")


def _monitored(absent: int) -> str:
    """All begin together; then one rank comes later than the others wait."""
    dist.barrier()
    if dist.get_rank() == absent:
        time.sleep(3 * PATIENCE)
        return ""
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=PATIENCE), wait_all_ranks=True)
    except RuntimeError as error:
        return str(error)
    return ""


def missed(ranks: int = 3, absent: int = 2) -> str:
    """What PyTorch's own barrier says of a rank that does not come, on rank 0."""
    return launch.run(_monitored, ranks, absent, echo=False)[0]
