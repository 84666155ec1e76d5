"""Programs of collectives and pipelines, message for message what `parallel` executes.

N ranks · K payload: bytes · g ranks inside one node · p stages
Each function returns a program for every rank of the cluster; `after` puts one behind another.
"""

from collections.abc import Sequence
from functools import partial

from mathlib.checks import InputError, below, divides, instance, listed, non_negative, one_of, whole
from mathlib.schedule.actions import Schedule
from mathlib.schedule.events import Program, Send, Wait, Work
from mathlib.schedule.times import Times
from mathlib.traffic.comm import ring_steps

Programs = list[Program]


def after(parts: Sequence[Sequence[Program]]) -> Programs:
    """One after the other, on each rank.

    Chapter: unequal
    """
    rows = [listed("parts", part) for part in listed("parts", parts)]
    if len({len(part) for part in rows}) > 1:
        raise InputError(f"parts of {[len(part) for part in rows]} ranks: expected as many in each")
    return [
        [step for one in row for step in listed("parts", one)] for row in zip(*rows, strict=True)
    ]


def work(seconds: Sequence[float]) -> Programs:
    """Each rank computes for so long.

    Chapter: unequal
    """
    return [[Work(non_negative("seconds", s))] for s in listed("seconds", seconds)]


def ring(
    *,
    payload: int,
    ranks: int,
    element: int = 4,
    members: Sequence[int] | None = None,
    passes: str = "both",
) -> Programs:
    """All-reduce round a ring of the members, as `collectives.ring_all_reduce` sends
    it; `passes`: "scatter" or "gather" is one half.

    Chapter: unequal
    """
    N = whole("ranks", ranks)
    one_of("passes", passes, ("both", "scatter", "gather"))
    group = [below("members", one, N) for one in listed("members", members or range(N))]
    K, each = whole("payload", payload, least=0), whole("element", element)
    programs: list[list] = [[] for _ in range(N)]
    for r, rank in enumerate(group):
        scatter, gather = ring_steps(_chunks(K, each, len(group)), r)
        steps = {"both": scatter + gather, "scatter": scatter, "gather": gather}[passes]
        right, left = group[(r + 1) % len(group)], group[r - 1]
        for give, take in steps:
            programs[rank] += [Send(right, give)] if give else []
            programs[rank] += [Wait(left)] if take else []
    return list(programs)


def _chunks(size: int, element: int, parts: int) -> list[int]:
    """Bytes of each chunk, as tensor_split cuts: the first have one element more."""
    each, more = divmod(size // element, parts)
    return [element * (each + (part < more)) for part in range(parts)]


def tree(*, payload: int, ranks: int) -> Programs:
    """All-reduce up a binomial tree to rank 0 and down it, as `collectives.tree_all_reduce`.

    Chapter: unequal
    """
    N, K, programs = whole("ranks", ranks), whole("payload", payload, least=0), Programs()
    for r in range(N):
        children, distance = [], 1
        while r % (2 * distance) == 0 and distance < N:
            children += [r + distance] if r + distance < N else []
            distance *= 2
        up: list = [Wait(child) for child in children]
        if r:
            up += [Send(r - distance, K), Wait(r - distance)]
        programs.append([*up, *(Send(child, K) for child in reversed(children))])
    return programs


def hierarchical(*, payload: int, ranks: int, ranks_per_node: int, element: int = 4) -> Programs:
    """Scattered inside nodes, summed across, gathered inside, each round a ring:
    `collectives.hierarchical_all_reduce`.

    Chapter: unequal
    """
    N = whole("ranks", ranks)
    g, K = (
        divides("ranks_per_node", ranks_per_node, "ranks", N),
        whole("payload", payload, least=0),
    )
    inside = [list(range(first, first + g)) for first in range(0, N, g)]
    shares = _chunks(K, whole("element", element), g)
    across = [(list(range(place, N, g)), shares[place]) for place in range(g)]
    of = partial(ring, ranks=N, element=element)
    parts = [of(payload=K, members=m, passes="scatter") for m in inside]
    parts += [of(payload=share, members=m) for m, share in across]
    parts += [of(payload=K, members=m, passes="gather") for m in inside]
    return after(parts)


def pipeline(schedule: Schedule, times: Times | None = None) -> Programs:
    """A schedule's action lists: wait for the input, work, send the output.  Of `times` counts how
    long actions take and how large a message is; speeds and links are the cluster's.

    Chapter: unequal
    """
    instance("schedule", schedule, Schedule)
    times = Times() if times is None else instance("times", times, Times)
    programs: list[list] = []
    for stage, (row, took) in enumerate(zip(schedule.actions, times.of(schedule), strict=True)):
        programs.append([])
        for action in row:
            seconds = Work(took[action.kind][action.chunk])
            source, target = schedule.receives_from(action), schedule.sends_to(action)
            back = action.kind != "F"
            name = (back, action.micro_batch, action.chunk)
            onward = (back, action.micro_batch, action.chunk + (-1 if back else 1))
            programs[stage] += [] if source is None else [Wait(source, name)]
            programs[stage] += [seconds]
            programs[stage] += [] if target is None else [Send(target, times.size, onward)]
    return list(programs)
