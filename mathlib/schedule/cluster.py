"""A cluster in a few lines: its nodes, links, speeds, and who dies when.

The same description is run by `launch.run(fn, cluster=...)` and computed by `schedule.events`.
A node's ranks have a link to each other, each pair and direction its own.  What leaves a node
passes its one port; `shared_ports` of a run says whether its messages share the port's bandwidth.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from mathlib.checks import InputError, below, listed, non_negative, positive, whole


class Link(NamedTuple):
    """One direction of a link."""

    bandwidth: float = math.inf  # bytes/s
    latency: float = 0.0  # seconds that a sender pauses before a message leaves

    def slower(self, other: "Link") -> "Link":
        """A message that passes both: the lesser bandwidth, the longer pause."""
        return Link(min(self.bandwidth, other.bandwidth), max(self.latency, other.latency))


@dataclass(frozen=True)
class Cluster:
    """Ranks are numbered node by node."""

    nodes: Sequence[int]  # ranks of each node: (2, 2)
    inside: Link = Link()  # between ranks of a node
    between: Link = Link()  # a node's port, which all pass that leaves it
    ports: Mapping[int, Link] = field(default_factory=dict)  # of nodes whose port differs
    slow: Mapping[tuple[int, int], Link] = field(default_factory=dict)  # also held: (from, to) rank
    speeds: Mapping[int, float] = field(default_factory=dict)  # of ranks that compute at another
    deaths: Mapping[int, float] = field(default_factory=dict)  # rank: seconds after it began

    def __post_init__(self) -> None:
        sizes = tuple(whole("nodes", size) for size in listed("nodes", self.nodes))
        if not sizes:
            raise InputError("nodes = []: expected the ranks of each node, such as (2, 2)")
        object.__setattr__(self, "nodes", sizes)
        for name in ("ports", "slow", "speeds", "deaths"):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError(f"{name} = {getattr(self, name)!r}: expected a dictionary")
        named = [("inside", self.inside), ("between", self.between)]
        named += [(f"ports[{node}]", link) for node, link in self.ports.items()]
        named += [(f"slow[{pair}]", link) for pair, link in self.slow.items()]
        for name, link in named:
            _check(name, link)
        for node in self.ports:
            below("ports", node, len(sizes))
        for rank in (*self.speeds, *self.deaths, *(end for pair in self.slow for end in pair)):
            below("rank", rank, self.ranks)
        for rank, speed in self.speeds.items():
            positive(f"speeds[{rank}]", speed)
        for rank, seconds in self.deaths.items():
            non_negative(f"deaths[{rank}]", seconds)

    @property
    def ranks(self) -> int:
        """N."""
        return sum(self.nodes)

    @cached_property
    def node_of(self) -> list[int]:
        """The node of each rank."""
        return [node for node, size in enumerate(self.nodes) for _ in range(size)]

    def ranks_of(self) -> Iterator[range]:
        """The ranks of each node."""
        for size, end in zip(self.nodes, accumulate(self.nodes), strict=True):
            yield range(end - size, end)

    def port(self, node: int) -> Link:
        """What a node sends through."""
        return self.ports.get(node, self.between)

    def link(self, a: int, b: int, *, shared_ports: bool = False) -> Link:
        """What holds a message from rank a to rank b; bandwidth of a port that all who leave
        the node share is left out.
        """
        here, there = self.node_of[a], self.node_of[b]
        link = self.inside
        if here != there:
            link = self.port(here)
            link = link._replace(bandwidth=math.inf) if shared_ports else link
        return link.slower(self.slow[a, b]) if (a, b) in self.slow else link

    def speed(self, rank: int) -> float:
        """How fast a rank computes; 1 unless said."""
        return self.speeds.get(rank, 1.0)


def _check(name: str, link: Link) -> None:
    if not isinstance(link, Link):
        raise InputError(f"{name} = {link!r}: expected a Link, such as Link(bandwidth=20e6)")
    if link.bandwidth != math.inf:
        positive(f"{name}.bandwidth", link.bandwidth)
    non_negative(f"{name}.latency", link.latency)
