"""Slow wires: a machine's own sockets are faster than its ranks, and show nothing of a network.

latency      seconds that every message waits before it leaves; a pause in the program
bandwidth    bytes/s at which this rank's connections send, each; held by the kernel (Linux), else
             by a pause too

A rank that sends to one other at a time, as in a ring, then has a link of that bandwidth.
"""

import contextlib
import math
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.futures import Future
from torch.utils._python_dispatch import TorchDispatchMode

from mathlib.checks import non_negative, one_of, positive

# SO_MAX_PACING_RATE, which Python does not name (include/uapi/asm-generic/socket.h)
PACING_RATE = 47
UNLIMITED = 2**64 - 1


def connections() -> Iterator[tuple[int, socket.socket]]:
    """This process's connected TCP sockets, whoever opened them, each with the number the kernel
    knows it by.
    """
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed while we look, or not connected
            if not str(entry.readlink()).startswith("socket:"):
                continue
            inode = entry.stat().st_ino
            with socket.socket(fileno=os.dup(int(entry.name))) as sock:
                if (
                    sock.family in (socket.AF_INET, socket.AF_INET6)
                    and sock.type == socket.SOCK_STREAM
                ):
                    sock.getpeername()  # a listening socket has no peer
                    yield inode, sock


class Pause(TorchDispatchMode):
    """Before a message of K bytes leaves for a rank of the world, wait as long as `seconds` says;
    before each call, `prepare`.
    """

    def __init__(
        self, seconds: Callable[[int, int], float], prepare: Callable[[], object] = lambda: None
    ):
        super().__init__()
        self.seconds, self.prepare = seconds, prepare

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function.namespace == "c10d":
            self.prepare()
            if function.__name__.startswith("send"):
                (tensor,), group, to, *_ = args
                members = dist.get_process_group_ranks(ProcessGroup.unbox(group))
                time.sleep(self.seconds(members[to], tensor.nbytes))
        return function(*args, **(kwargs or {}))


def pace(rate: int, connection: socket.socket) -> None:
    """Let the kernel hold a connection to `rate` bytes/s, headers not counted (Linux 4.13).

    It lets the first ten packets of a connection go as they like, and after a pause one at once; on
    a machine's own wires they may hold 64 kB each. So it holds no message of a single packet.
    """
    connection.setsockopt(socket.SOL_SOCKET, PACING_RATE, struct.pack("=Q", rate))


@contextlib.contextmanager
def wires(*, latency: float = 0.0, bandwidth: float = math.inf, by: str = "") -> Iterator[str]:
    """Slow down what this rank sends inside the block; yields who holds the bandwidth, "kernel" or
    "program".
    """
    alpha = non_negative("latency", latency)
    w = bandwidth if bandwidth == math.inf else positive("bandwidth", bandwidth)
    by = one_of(
        "by", by or ("kernel" if sys.platform == "linux" else "program"), ["kernel", "program"]
    )
    kernel = by == "kernel" and w < math.inf
    with Pause(lambda _, size: alpha + (0 if kernel else size / w)):
        if kernel:
            _pace_all(int(w))
        try:
            yield by
        finally:
            if kernel:
                _pace_all(UNLIMITED)


def _pace_all(rate: int) -> None:
    for _, connection in connections():
        pace(rate, connection)


def all_reducer(*, latency: float = 0.0) -> Callable[[Tensor, ProcessGroup | None], Future]:
    """A hook for DDP on a network with latency: it sums a buffer over the ranks, and its future
    says when.

    A thread carries one buffer after the other, and pauses 2 (N-1) alpha before each, as a ring's
    messages do; the rank goes on computing meanwhile.
    """
    alpha, thread = non_negative("latency", latency), ThreadPoolExecutor(1)

    def carry(flat: Tensor, group: ProcessGroup | None, done: Future) -> None:
        try:
            time.sleep(2 * (dist.get_world_size(group) - 1) * alpha)
            dist.all_reduce(flat, group=group)
            done.set_result(flat)
        except Exception as error:  # it shall come out where the rank waits
            done.set_exception(error)

    def begin(flat: Tensor, group: ProcessGroup | None = None) -> Future:
        done: Future = Future()
        thread.submit(carry, flat, group, done)
        return done

    return begin
