"""What a run may take, by the formulas of the chapters.

N ranks · K bytes of the payload
"""

from typing import Any

from mathlib.checks import ceil_div
from mathlib.schedule.cluster import Cluster, Link
from mathlib.traffic import comm
from mathlib.workshop.puzzle import Budget
from mathlib.workshop.ranks import NUMBER

LINK = Link(bandwidth=float(NUMBER), latency=1.0)  # a number a second: times can be read


def alone(n: int, link: Link = LINK) -> Cluster:
    """Nodes of one rank, each with one port for all that it sends."""
    return Cluster((1,) * n, between=link)


def sent(formula: str, collective: str, *, numbers: int, ranks: int, algorithm: str = "") -> Budget:
    """Bytes of the busiest rank, all shards of one size: where they are not, the last is padded."""
    payload = NUMBER * ranks * ceil_div(numbers, ranks)
    moved = comm.traffic(collective, payload=payload, ranks=ranks, algorithm=algorithm)
    return Budget("bytes sent", moved.busiest, formula)


def time(formula: str, collective: str, *, numbers: int, ranks: int, algorithm: str = "") -> Budget:
    """Seconds of a collective on links such as `LINK`."""
    how: dict[str, Any] = {"payload": NUMBER * numbers, "ranks": ranks, "algorithm": algorithm}
    return Budget("time", comm.time(collective, **how, **LINK._asdict()).total, formula)
