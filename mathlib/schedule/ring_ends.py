"""When each of very many ranks ends a ring or a hierarchical ring, with no event for each message.

N ranks · g ranks inside one node · K payload: bytes · alpha latency
Equal to `events.run` of the same programs where chunks are of one size.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from mathlib.checks import InputError, flag, instance, listed, non_negative, whole
from mathlib.schedule.cluster import Cluster, Link

MOST = 10**8  # additions


def ring_ends(
    costs: Sequence[float], begins: Sequence[float], *, steps: int, latency: float = 0.0
) -> list[float]:
    """When each rank of a ring is through `steps` messages round it, without following each of
    them: rank r's take costs[r] on its link to the right, and it begins at begins[r].

    A chain of messages that wait for each other moves to the next rank, which costs a pause and
    that rank's message, or stays, which costs the longest message on its way (or a pause).  The
    longest chain begins where something differs or beside it, or has moved all the way, or never:
    in the midst of equals it can only grow or only shrink.  So 10^5 ranks of which x differ take
    x 10^5 additions, and not 10^10 messages.

    Chapter: unequal
    """
    n, alpha = len(listed("costs", costs)), non_negative("latency", latency)
    whole("steps", steps)
    costs = [non_negative("costs", one) for one in costs]
    begins = [non_negative("begins", one) for one in listed("begins", begins)]
    if not n == len(begins) >= 2:
        raise InputError(f"costs, begins of {n}, {len(begins)} ranks: expected as many, 2 or more")
    both = list(zip(costs, begins, strict=True))
    ((usual, _),) = Counter(both).most_common(1)
    odd = [r for r in range(n) if both[r] != usual]
    if len(odd) * steps > MOST:
        raise InputError(
            f"costs, begins: {len(odd)} of {n} ranks differ from the others; expected fewer, so "
            f"that {steps} steps are followed in seconds"
        )
    left, handed = [0.0] * n, [b + steps * alpha for b in begins]
    for source in {at % n for r in odd for at in (r - 1, r, r + 1)}:
        total, longest = begins[source], alpha
        for k in range(steps):
            r, rest = (source + k) % n, steps - 1 - k
            total += alpha
            handed[r] = max(handed[r], total + rest * longest)
            total += costs[r]
            longest = max(longest, costs[r])
            left[r] = max(left[r], total + rest * longest)
    sums = [0.0]
    for k in range(n + steps):
        sums.append(sums[-1] + costs[k % n])
    for source in range(n):
        last = (source + steps - 1) % n
        full = begins[source] + steps * alpha
        handed[last] = max(handed[last], full + sums[source + steps - 1] - sums[source])
        left[last] = max(left[last], full + sums[source + steps] - sums[source])
    for r in range(n):  # a chain that begins in the midst of equals
        left[r] = max(left[r], handed[r] + costs[r])
        stay = begins[r] + alpha + costs[r] + (steps - 1) * max(alpha, costs[r])
        left[r] = max(left[r], stay)
    return [max(handed[r], left[r - 1]) for r in range(n)]


def all_reduce_ends(
    cluster: Cluster,
    *,
    payload: float,
    begins: Sequence[float] | None = None,
    hierarchical: bool = False,
    shared_ports: bool = False,
) -> list[float]:
    """When each rank is through an all-reduce of K that it begins at `begins`: round one ring of
    all ranks; or scattered in each node, summed across, gathered in each node.

    A node's g ranks send at once between nodes: each is taken to have W / g of a shared
    port, which is exact without latency where all begin together and ports are equal.

    Chapter: unequal (eq-unequal-ring, eq-unequal-levels)
    """
    n, K = instance("cluster", cluster, Cluster).ranks, non_negative("payload", payload)
    ends = [0.0] * n if begins is None else listed("begins", begins)
    if len(ends) != n:
        raise InputError(f"begins of {len(ends)} ranks: expected {n}")
    if not flag("hierarchical", hierarchical):
        return _round(cluster, range(n), ends, K / n, 2 * (n - 1))
    if len(set(cluster.nodes)) > 1:
        raise InputError(f"nodes = {cluster.nodes}: expected as many ranks in each")
    g, nodes = cluster.nodes[0], len(cluster.nodes)
    for ring in cluster.ranks_of():
        ends[ring.start : ring.stop] = _round(cluster, ring, ends, K / g, g - 1)
    for place in range(g):
        ring, sent = range(place, n, g), K / g / nodes
        sharing = g if flag("shared_ports", shared_ports) else 1
        ends[place::g] = _round(cluster, ring, ends, sent, 2 * (nodes - 1), sharing)
    for ring in cluster.ranks_of():
        ends[ring.start : ring.stop] = _round(cluster, ring, ends, K / g, g - 1)
    return ends


def _round(
    cluster: Cluster,
    ring: range,
    begins: Sequence[float],
    size: float,
    steps: int,
    among: int = 1,
) -> list[float]:
    """A ring of these ranks; a port that is shared is so among so many of a node."""
    if len(ring) == 1:
        return [begins[ring[0]]]
    links = list(_links(cluster, ring, among))
    if len(pauses := {link.latency for link in links}) > 1:
        raise InputError(f"latency = {sorted(pauses)} in one ring: expected one for all its links")
    costs = [size / link.bandwidth for link in links]
    here = [float(f"{begins[rank]:.12g}") for rank in ring]  # equal ones are found equal
    return ring_ends(costs, here, steps=steps, latency=pauses.pop())


def _links(cluster: Cluster, ring: range, among: int) -> Iterator[Link]:
    for a, b in pairwise([*ring, ring[0]]):
        link = cluster.link(a, b)
        if among > 1 and cluster.node_of[a] != cluster.node_of[b]:
            port = cluster.port(cluster.node_of[a]).bandwidth / among
            link = link._replace(bandwidth=min(link.bandwidth, port))
        yield link
