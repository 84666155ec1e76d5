"""What crosses the wire, counted twice: by the program, call by call, and by the operating system,
byte by byte.

counted()     every message and collective that this rank's Python code hands to torch.distributed
tcp()         bytes that this rank's own TCP connections sent, from the kernel's TCP_INFO (Linux)
sent()        both, without gloo's headers: what a formula predicts
sent_to()     the system's count for each other rank; `leaving` adds what leaves a node of k ranks

gloo announces a message and heads its data, 96 bytes from the sender; the receiver says that it is
ready, 48 bytes. So the two counts agree to the byte: tcp = sent + 96 * messages sent + 48 *
messages received.
"""

import contextlib
import math
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mathlib.checks import one_of, whole
from mathlib.launch.slow_wires import connections

# Bytes gloo adds to a message, at its sender and at its receiver: 48 for each of the announcement,
# the message, the answer (gloo/transport/tcp/pair.h: six numbers of 8 bytes in Op's preamble).
ANNOUNCED, READY = 96, 48
RINGS = {  # times that gloo sends a collective's payload around a ring, messages to each other rank
    "allreduce_": (2, 4),
    "_allgather_base_": (1, 2),
    "alltoall_base_": (1, 1),
}
MESSAGES = ("send", "recv_", "recv_any_source_")


def _empty(numbers: int, segments: int) -> int:
    """Of an all-reduce's equal segments those that a few numbers leave empty: gloo sends none."""
    return segments - math.ceil(numbers / math.ceil(numbers / segments)) if numbers else 0


@dataclass
class Counted:
    """What the program handed over. A collective's bytes are its payload K: the buffer on the side
    that is whole.
    """

    calls: Counter[str] = field(
        default_factory=Counter
    )  # by name, as torch calls it: "send", "recv_", "allreduce_"
    payload: Counter[str] = field(default_factory=Counter)  # bytes, by the same names
    to: Counter[int] = field(
        default_factory=Counter
    )  # bytes of messages, by the rank of the world they go to
    parts: dict[tuple[str, str], list[int]] = field(
        default_factory=dict
    )  # calls and bytes by name and what for, where somebody was asked to tell
    left: list[float] = field(
        default_factory=list
    )  # when each message was sent off, by the clock that this machine's processes share
    passed: Fraction = Fraction(0)  # bytes that leave this rank in collectives of RINGS
    by_group: Counter[str] = field(
        default_factory=Counter
    )  # bytes that leave this rank, by the name of the process group
    headers: float = 0  # bytes that gloo adds to these

    def pass_on(
        self, name: str, size: int, group: dist.ProcessGroup, parts: list[int], each: int
    ) -> None:
        """Note a collective of RINGS; `parts`: rows for each rank, where they are not alike;
        `each`: bytes of a number.
        """
        n, (rounds, messages) = group.size(), RINGS[name]
        share = Fraction(n - 1, n)
        if any(parts):
            share = Fraction(sum(parts) - parts[group.rank()], sum(parts))
        self.passed += rounds * size * share
        self.by_group[group.group_name] += float(rounds * size * share)  # type: ignore[assignment]
        self.headers += (n - 1) * messages * (ANNOUNCED + READY)
        if name == "allreduce_" and (empty := _empty(size // each, 2 * n)):  # on average of ranks
            self.headers -= 2 * (n - 1) * empty * (ANNOUNCED + READY) / n

    @property
    def messages(self) -> int:
        """Point-to-point messages this rank sent."""
        return self.calls["send"]

    @property
    def sent(self) -> int:
        """Bytes this rank sent in them."""
        return self.payload["send"]

    @property
    def on_wire(self) -> int:
        """Bytes the system should see this rank send for its messages over gloo."""
        received = self.calls["recv_"] + self.calls["recv_any_source_"]
        return self.sent + ANNOUNCED * self.messages + READY * received


class _Counting(TorchDispatchMode):
    def __init__(self, purpose: Callable[[str], str] | None) -> None:
        super().__init__()
        self.counted, self.purpose = Counted(), purpose

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function.namespace in ("c10d", "_c10d_functional"):
            name = function.__name__.partition(".")[0]
            sides = (
                [leaf for leaf in tree_leaves(arg) if isinstance(leaf, Tensor)] for arg in args
            )
            size = max(sum(t.nbytes for t in side) for side in sides)
            self.counted.calls[name] += 1
            self.counted.payload[name] += size
            if self.purpose:
                part = self.counted.parts.setdefault((name, self.purpose(name)), [0, 0])
                part[:] = part[0] + 1, part[1] + size
            if name in RINGS:
                group = next(arg for arg in args if isinstance(arg, torch.ScriptObject))
                given, parts = (args[1].nbytes, args[4]) if "alltoall" in name else (size, [])
                each = next(t.itemsize for t in tree_leaves(args) if isinstance(t, Tensor))
                self.counted.pass_on(name, given, dist.ProcessGroup.unbox(group), parts, each)
            if name == "send":
                (tensor,), group, to, *_ = args
                among = dist.ProcessGroup.unbox(group)
                members = dist.get_process_group_ranks(among)
                self.counted.to[members[to]] += tensor.nbytes
                self.counted.by_group[among.group_name] += tensor.nbytes
                self.counted.left.append(time.monotonic())
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def counted(purpose: Callable[[str], str] | None = None) -> Iterator[Counted]:
    """Count what passes torch's dispatcher inside the block, the calls of torch's own DDP too;
    `purpose` tells of each what it is for, by its name.
    """
    with _Counting(purpose) as mode:
        yield mode.counted


@dataclass
class Wire:
    """Bytes this rank's TCP connections sent, retransmissions left out."""

    sent: int = 0


# Offsets of 64-bit counters in the kernel's struct tcp_info (include/uapi/linux/tcp.h).
SENT, RETRANSMITTED = 200, 208
SIOCOUTQ = 0x5411  # bytes written but not yet acknowledged (linux/sockios.h)


def totals() -> dict[int, int]:
    """Bytes sent on each connection since it was opened."""
    if sys.platform != "linux":
        raise NotImplementedError(
            "wire.tcp reads the kernel's TCP_INFO, on Linux only; wire.counted works anywhere"
        )
    found = {}
    for inode, sock in connections():
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        sent, again = (
            struct.unpack_from("=Q", info, offset)[0] for offset in (SENT, RETRANSMITTED)
        )
        found[inode] = sent - again
    return found


def settle(seconds: float = 5.0) -> None:
    """Wait until the other ends have acknowledged all that this rank wrote."""
    import fcntl

    until = time.monotonic() + seconds
    while any(
        struct.unpack("i", fcntl.ioctl(sock.fileno(), SIOCOUTQ, b"\0" * 4))[0]
        for _, sock in connections()
    ):
        if time.monotonic() > until:
            raise TimeoutError(f"data is still in flight after {seconds:g} seconds")
        time.sleep(0.001)


def quiet(group: dist.ProcessGroup | None = None) -> None:
    """Let the ranks meet and their wires fall silent, so that what is counted next is nothing of
    before.
    """
    dist.barrier(group)
    settle()
    dist.barrier(group)


@contextlib.contextmanager
def by_connection(group: dist.ProcessGroup | None = None) -> Iterator[dict[int, int]]:
    """Bytes sent on each connection during the block, by the system's count: begin it on all ranks,
    read it after the block.
    """
    quiet(group)
    sent, before = dict[int, int](), totals()
    yield sent
    settle()
    sent |= {connection: now - before.get(connection, 0) for connection, now in totals().items()}


@contextlib.contextmanager
def tcp(group: dist.ProcessGroup | None = None) -> Iterator[Wire]:
    """Bytes on the wire during the block, by the system's count: begin it on all ranks, read `sent`
    after it.
    """
    wire = Wire()
    with by_connection(group) as sent:
        yield wire
    wire.sent = sum(sent.values())


@dataclass
class Sent:
    """Bytes that this rank sent, without headers: by its program's calls, and by the system."""

    program: float = 0.0
    system: float = 0.0
    by_group: Counter[str] = field(default_factory=Counter)  # the program's, as in Counted


@contextlib.contextmanager
def sent() -> Iterator[Sent]:
    """Both counts of a block: begin it on all ranks."""
    found = Sent()
    with tcp() as system, counted() as program:
        yield found
    for name in program.calls.keys() - set(MESSAGES):
        one_of("collective", name, RINGS)
    found.program, found.by_group = float(program.sent + program.passed), program.by_group
    found.system = system.sent - program.headers - (program.on_wire - program.sent)


def peers(group: dist.ProcessGroup | None = None) -> dict[int, int]:
    """Which rank of the group is at the other end of each of this rank's connections."""
    ends = [(inode, sock.getsockname(), sock.getpeername()) for inode, sock in connections()]
    told: list[list[object]] = [[] for _ in range(dist.get_world_size(group))]
    # both ends: two ranks may use one port, each to a different other
    dist.all_gather_object(told, [(own, other) for _, own, other in ends], group)
    rank_at = {pair: rank for rank, theirs in enumerate(told) for pair in theirs}
    return {inode: rank_at[other, own] for inode, own, other in ends if (other, own) in rank_at}


@contextlib.contextmanager
def sent_to(group: dist.ProcessGroup | None = None) -> Iterator[Counter[int]]:
    """Bytes this rank sent during the block, by the rank they went to: begin it on all ranks, read
    it after the block.
    """
    sent: Counter[int] = Counter()
    with by_connection(group) as found:
        yield sent
    other = peers(group)
    for connection, size in found.items():
        if connection in other:
            sent[other[connection]] += size


def leaving(sent: Mapping[int, int], rank: int, ranks_per_node: int) -> int:
    """Bytes of these that this rank sent to another node."""
    node = whole("ranks_per_node", ranks_per_node)
    return sum(size for to, size in sent.items() if to // node != rank // node)
