"""Nodes of a cluster as network namespaces, joined by a bridge, each port held by the kernel's
token bucket.

One process makes and holds the namespaces, which have no names.  They end with it and the ranks
inside, however those end, and it ends when the launcher does: nothing can be left behind.

    launcher -> holder   a line of JSON: bytes/s of each node's port, null for no limit
    holder -> launcher   a line of JSON: {"paths": of the namespaces} or {"why": it cannot be done}
"""

import contextlib
import ctypes
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mathlib.checks import InputError, one_of
from mathlib.launch import start
from mathlib.schedule.cluster import Cluster

WAYS = ("namespaces", "paced")
PORT = "eth0"  # what each node's port is called, inside its namespace
CLONE_NEWNET = 0x40000000  # linux/sched.h
LARGEST = 9000  # bytes of a packet, so that headers take less than a hundredth
# What passes at once after a pause: a millisecond's worth, else some packets; and what may queue.
BURST, PACKETS, QUEUE = 1e-3, 2 * 9014, 16 * 2**20


class Place(NamedTuple):
    """Where the ranks of a cluster run."""

    way: str  # one of WAYS
    why: str = ""  # it is not the first of them
    paths: tuple[str, ...] = ()  # the namespace of each rank


@contextlib.contextmanager
def made(cluster: Cluster, way: str | None = None) -> Iterator[Place]:
    """Namespaces for the block, if they are asked for or can be made; else connections are paced
    one by one.
    """
    one_of("network", way, (None, *WAYS))
    if why := "asked for" if way == "paced" else _lacking():
        yield _paced(way, why)
        return
    rates = [cluster.port(node).bandwidth for node in range(len(cluster.nodes))]
    with _holder() as holder:
        assert holder.stdin and holder.stdout
        holder.stdin.write(json.dumps([None if r == math.inf else r for r in rates]) + "\n")
        holder.stdin.flush()
        told = json.loads(holder.stdout.readline() or '{"why": "the holder died"}')
        if "why" in told:
            yield _paced(way, told["why"])
        else:
            paths = tuple(told["paths"][node] for node in cluster.node_of)
            yield Place("namespaces", paths=paths)


def _paced(way: str | None, why: str) -> Place:
    if way == "namespaces":
        raise InputError(f"network = 'namespaces': {why}; expected 'paced' here")
    return Place("paced", why)


def _lacking() -> str:
    """What network namespaces need and is not here."""
    if sys.platform != "linux":
        return "namespaces need Linux"
    if os.geteuid():
        return "namespaces need root"
    missing = [tool for tool in ("ip", "tc") if not shutil.which(tool)]
    return f"namespaces need {' and '.join(missing)} (iproute2)" if missing else ""


@contextlib.contextmanager
def _holder() -> Iterator[subprocess.Popen]:
    """The process that has the namespaces; it leaves when its input ends."""
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{start.ENTRY} namespaces; namespaces.main()", *_path()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def _path() -> list[str]:
    return ["\n".join(start.module_path())]


def enter(path: str) -> None:
    """Move this thread, and those it will start, into a namespace; sockets that it opens are
    there.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(path).open() as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {path}")


def main() -> None:
    """What the holder does."""
    rates = json.loads(sys.stdin.readline())
    try:
        told = {"paths": _make(rates)}
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        told = {"why": f"namespaces cannot be made: {said.strip()}"}  # type: ignore[dict-item]
    print(json.dumps(told), flush=True)
    sys.stdin.read()


def _make(rates: Sequence[float | None]) -> list[str]:
    """A namespace for each node, and one for the bridge between them."""
    bridge, *nodes = (_unshared() for _ in range(len(rates) + 1))
    enter(bridge)
    lines = ["link add name bridge type bridge", "link set dev bridge up"]
    for node, path in enumerate(nodes):
        cable = f"link add name port{node} mtu {LARGEST} type veth peer name {PORT} mtu {LARGEST}"
        lines += [f"{cable} netns {path}", f"link set dev port{node} master bridge up"]
    _say("ip", lines)
    for node, (path, rate) in enumerate(zip(nodes, rates, strict=True)):
        enter(path)
        high, low = divmod(node + 1, 256)
        lines = [f"addr add 10.77.{high}.{low}/16 dev {PORT}"]
        _say("ip", [*lines, *(f"link set dev {device} up" for device in ("lo", PORT))])
        if rate:
            burst = max(PACKETS, int(BURST * rate))
            bucket = f"tbf rate {8 * rate:.0f} burst {burst} limit {QUEUE}"
            _say("tc", [f"qdisc add dev {PORT} root {bucket}"])
    return nodes


def _unshared() -> str:
    """A new namespace, and a path by which every process reaches it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"/proc/{os.getpid()}/fd/{os.open('/proc/self/ns/net', os.O_RDONLY)}"


def _say(tool: str, lines: Sequence[str]) -> None:
    words = [tool, "-batch", "-"]
    subprocess.run(words, input="\n".join(lines), text=True, check=True, capture_output=True)
