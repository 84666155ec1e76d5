"""What a way of running meets: the model, the devices with their links, and their rates.

N ranks of a group · s tokens
A group's exchange goes at the pace of the link that it really crosses.
"""

from math import log2
from typing import Any, NamedTuple

from mathlib.checks import InputError, instance, positive, whole
from mathlib.plan import work
from mathlib.plan.adapted import ALONE, AdapterRoom, Adapters
from mathlib.plan.calibration import Rates
from mathlib.plan.room import Keeps, Room
from mathlib.records import dataclass, field
from mathlib.specs import Cluster, Device, Layout, Model, find_device, find_model, table


class Pass(NamedTuple):
    """Seconds of a layer, forward and backward, for one micro-batch; and those of the loss."""

    parts: tuple[float, ...]  # the first eight of NAMES
    each: float  # their sum
    computing: float  # of it, what an exchange of gradients can hide behind
    loss: float


class Forward(NamedTuple):
    """A layer forward, for one micro-batch, and the loss."""

    per: work.Layer  # its amounts
    flop: float  # of matmuls, the experts' counted as more where their kernels are slower
    moved: float  # bytes that these read and write, some of them more than once
    traffic: float  # bytes of all that is no matmul
    seconds: tuple[float, float, float]  # of matmuls, attention and traffic
    loss: float  # seconds of head and loss, forward and backward
    narrow: float  # seconds of adapters' matmuls


@dataclass(frozen=True)
class Host:
    """A device's share of the machine that it sits in: of what several devices share, a part."""

    link: float  # bytes/s between the device and the host's memory, one direction
    memory: float  # bytes of the host's memory
    bandwidth: float  # bytes/s of that memory, at which the host updates weights
    devices: int = 1  # of the machine, when all of which are used these are a device's shares

    def __post_init__(self) -> None:
        for name in ("link", "memory", "bandwidth"):
            positive(name, getattr(self, name))
        whole("devices", self.devices)

    def shares(self, used: int) -> float:
        """How many shares of memory and bandwidth a device has in a run on so many devices."""
        return self.devices / min(used, self.devices)


@dataclass(frozen=True, eq=False)
class Machine:
    """What a way of running meets: the model, the devices with their links, their rates."""

    model: Model
    device: Device
    cluster: Cluster
    rates: Rates
    tokens: int
    host: Host | None = None  # None: nothing waits there
    attention: str = "flash"  # as memory has it; time goes by rates.fused
    dropout: bool = False  # whether masks are kept
    adapters: Adapters | None = None  # trained beside frozen weights; None: weights are trained
    peak: float = field(init=False)  # FLOP/s of a layer's matmuls, by data sheet
    arithmetic: float = field(init=False)  # FLOP/s that a layer's matmuls reach
    wide: float = field(init=False)  # that the head's reach, which are of 16 bits
    scores: float = field(init=False)  # that attention's reach
    stream: float = field(init=False)  # bytes/s through memory
    inside: float = field(init=False)  # of a byte to a neighbour
    outside: float = field(init=False)  # of a byte out of the node, on a device's share of it
    passes: dict[tuple[object, ...], Pass] = field(init=False, repr=False)
    forwards: dict[tuple[object, ...], Forward] = field(init=False, repr=False)
    held: dict[tuple[object, ...], work.Held] = field(init=False, repr=False)
    shared: dict[tuple[object, ...], list[tuple[float, float]]] = field(init=False, repr=False)
    room: Room = field(init=False, repr=False)  # for what an activation weighs in flight

    def __post_init__(self) -> None:
        self._refuse_beside_adapters()
        r, on, node = self.rates, self.device, self.cluster.devices_per_node
        if r.precision != "half" and r.precision not in on.peak:
            raise InputError(f"precision = {r.precision!r}: {on.name} has no such matmuls")
        peak = on.half if r.precision == "half" else on.peak[r.precision]
        link = self.cluster.link_bandwidth or on.link_bandwidth
        derived: dict[str, object] = {
            "peak": peak,
            "arithmetic": peak * r.matmul,
            "wide": on.half * r.matmul,
            "scores": on.half * r.attention,
            "stream": on.memory_bandwidth * r.memory,
            "inside": 1 / (link * r.link),
            "outside": node / (self.cluster.node_bandwidth * r.network),
            "passes": {},
            "forwards": {},
            "held": {},
            "shared": {},
            "room": self.filled(),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def _refuse_beside_adapters(self) -> None:
        """Refuse what is not counted together with adapters."""
        for name, value, wanted in (
            ("host", self.host, None),
            ("attention", self.attention, "flash"),
            ("precision", self.rates.precision, "half"),
        ):
            if self.adapters and value != wanted:
                raise InputError(f"{name} = {value!r}: with adapters expected {wanted!r}")

    def filled(self, recipe: str | None = None, keeps: Keeps | None = None) -> Room:
        """Memory of its layouts."""
        how: dict[str, Any] = {"attention": self.attention, "dropout": self.dropout}
        how["precision"] = self.rates.precision
        own = self.model, self.tokens, recipe, keeps or Keeps()
        if self.adapters:
            return AdapterRoom(*own, **how, adapters=self.adapters)
        return Room(*own, **how)

    def takes(self, way: Layout | work.Way) -> bool:
        """Whether a layout is counted: any, but with adapters replicas and shards alone."""
        return not self.adapters or all(getattr(way, axis) in of for axis, of in ALONE.items())

    def neighbours(self, size: int, stride: int) -> int:
        """Ranks of a group that share a node, as `mesh.neighbours`, unchecked and so quicker."""
        return min(size, max(1, self.cluster.devices_per_node // stride))

    def ring(self, sent: float, size: int, stride: int) -> float:
        """Seconds of a ring in which a rank sends so many bytes; a ring leaves a node once, on the
        cards that all its ranks there have.
        """
        if size == 1:
            return 0.0
        near = self.neighbours(size, stride)
        hops = self.rates.hop * (near - 1 + log2(size / near))
        slow = self.inside if near == size else max(self.inside, self.outside / near)
        return sent * slow + hops

    def all_to_all(self, sent: float, size: int, stride: int) -> float:
        """Seconds of an exchange with experts; a token goes to a node once, however many of its
        experts are there, and to `visit_nodes` at most.
        """
        if size == 1:
            return 0.0
        near = self.neighbours(size, stride)
        out, nodes = sent * (size - near) / (size - 1), size / near
        visits = self.model.experts.active if self.model.experts else 1
        among = min(nodes, self.rates.visit_nodes or nodes)
        once = among * (1 - (1 - 1 / among) ** visits) / visits
        return max(sent * self.inside, out * once * self.outside) + self.rates.hop * log2(size)


def host_of(cluster: Cluster) -> Host:
    """A device's share of its node's host: what the data sheets say, times what published runs
    reached of it.

    Chapter: planning
    """
    nodes, reached = instance("cluster", cluster, Cluster), table("calibrations")["host"]
    if not (nodes.host_memory and nodes.host_link and nodes.host_bandwidth):
        raise InputError(
            f"cluster = {nodes.name!r}: expected one whose host_memory, host_link and "
            "host_bandwidth are told"
        )
    n = nodes.devices_per_node
    return Host(
        link=nodes.host_link * reached["link"],
        memory=nodes.host_memory / n,
        bandwidth=nodes.host_bandwidth * reached["update"] / n,
        devices=n,
    )


def machine(
    model: str | Model,
    cluster: Cluster,
    rates: Rates,
    *,
    tokens: int | None = None,
    device: Device | None = None,
    host: Host | None = None,
    adapters: Adapters | None = None,
) -> Machine:
    """What every layout of a model on a cluster has in common.

    `device`: where it is none of devices.toml, which the cluster names. `host`: where optimizer
    states and activations may wait in its memory, as `host_of` has it. `adapters`: what is trained
    beside frozen weights.

    Chapter: planning
    """
    model, cluster = find_model(model), instance("cluster", cluster, Cluster)
    s = model.context if tokens is None else whole("tokens", tokens)
    device = find_device(cluster.device) if device is None else instance("device", device, Device)
    host = None if host is None else instance("host", host, Host)
    own = None if adapters is None else instance("adapters", adapters, Adapters)
    reached = instance("rates", rates, Rates)
    return Machine(model, device, cluster, reached, model.reach(s), host, adapters=own)
