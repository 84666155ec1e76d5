"""Run one function on N ranks, from a notebook cell, a script or under torchrun, and get their
results back.

    import torch, torch.distributed as dist
    from mathlib import launch

    def mean_rank():
        x = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(x)
        return x.item() / dist.get_world_size()

    launch.run(mean_rank, 4)                      # [1.5, 1.5, 1.5, 1.5]

The same script started by `torchrun --nproc-per-node 4 script.py`, on one machine or on many, finds
that its processes are ranks already: `run` then calls the function once in each, and returns the
same list in each.
"""

import contextlib
import linecache
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mathlib import checks
from mathlib.launch import failure, start
from mathlib.launch.failure import RankError, RankTimeout

if TYPE_CHECKING:
    from mathlib.schedule.cluster import Cluster

__all__ = ["RankError", "RankTimeout", "run"]

GRACE = 0.3  # seconds the other ranks get to report, once one has failed
joined = 0  # runs this process has joined under torchrun: each gets keys of its own in the store
store: Any = None


def run(
    fn: Callable,
    world_size: int | None = None,
    *args: Any,
    timeout: float = 60,
    threads: int | None = 1,
    device: str = "cpu",
    echo: bool = True,
    how: str | None = None,
    cluster: "Cluster | None" = None,
    network: str | None = None,
    watch: bool = False,
    **kwargs: Any,
) -> list:
    """Call fn(*args, **kwargs) on every rank; return the list of what the ranks return, in the
    order of ranks.

    fn may be defined anywhere, a notebook cell too. Inside it torch.distributed is initialised:
    gloo for device "cpu", nccl for "cuda". timeout: seconds. threads: what a rank computes with
    (None: torch decides). echo: print what the ranks printed. how: "fork" (Linux, milliseconds a
    rank) or "fresh" (a new interpreter each, seconds). cluster: whose nodes, links, speeds and
    deaths the ranks are held to, by network "namespaces" (where root may), or "paced"; see `lab`.
    watch: if they do not finish in time, say which rank waits for whom, and in what.
    """
    checks.positive("timeout", timeout)
    checks.one_of("device", device, ["cpu", "cuda"])
    if cluster:
        world_size = _ranks_of(cluster, world_size)
    _check_asked(cluster, network, checks.flag("watch", watch))
    if _under_torchrun():
        return _join(fn, world_size, args, kwargs, timeout, threads, device, cluster)
    if world_size is None:
        raise checks.InputError(
            "world_size = None: expected how many ranks to start; only torchrun's processes know"
        )
    world_size = checks.whole("world_size", world_size)
    how = how or ("fork" if sys.platform == "linux" else "fresh")
    begin = start.Forked if checks.one_of("how", how, ["fork", "fresh"]) == "fork" else start.Fresh
    task = _surroundings() | {
        "call": _pickle(fn, args, kwargs),
        "world_size": world_size,
        "timeout": timeout,
        "threads": threads,
        "device": device,
        "watch": watch,
    }
    with contextlib.ExitStack() as stack:
        if cluster:
            from mathlib.launch.namespaces import made

            task |= {"cluster": cluster, "place": stack.enter_context(made(cluster, network))}
        home = stack.enter_context(_home(task))
        ranks = stack.enter_context(contextlib.closing(begin(home, world_size)))
        try:
            return _collect(ranks, home, world_size, timeout)
        finally:
            if echo:
                _echo(home, world_size)


def _under_torchrun() -> bool:
    return "MASTER_ADDR" in os.environ and "RANK" in os.environ


def life() -> int:
    """How often torchrun has started its ranks anew. Its store keeps the addresses of the dead."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _check_asked(cluster: "Cluster | None", network: str | None, watch: bool) -> None:
    """Refuse what would be dropped."""
    if network is not None and not cluster:
        raise checks.InputError(f"network = {network!r}: expected a cluster, whose network it is")
    if _under_torchrun():
        if network == "namespaces":
            raise checks.InputError(
                "network = 'namespaces': torchrun started the ranks, expected 'paced'"
            )
        if watch:
            raise checks.InputError(
                "watch = True: expected False under torchrun, whose agent ends ranks that hang"
            )


def _ranks_of(cluster: "Cluster", world_size: int | None) -> int:
    if world_size not in (None, cluster.ranks):
        raise checks.InputError(
            f"world_size = {world_size!r}: the cluster has {cluster.ranks} ranks; expected as many"
        )
    return cluster.ranks


@contextlib.contextmanager
def _home(task: dict) -> Iterator[Path]:
    """A folder with the ranks' task, in which they leave what they return and print; in memory
    where there is a place for that.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix=f"ranks-{os.getpid()}-", dir=memory))
    try:
        (home / "task").write_bytes(pickle.dumps(task))
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _pickle(*call: Any) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(call)
    except Exception as error:
        raise TypeError(f"fn or an argument cannot be sent to the ranks: {error}") from None


def _surroundings() -> dict:
    """What a rank takes over from this process, so that the function finds there what it would find
    here.
    """
    environment = dict(os.environ)
    if sys.platform == "linux":
        environment.setdefault(
            "GLOO_SOCKET_IFNAME", "lo"
        )  # else gloo asks for the host's name, which may not resolve
    cells = {
        name: entry
        for name, entry in linecache.cache.items()
        if len(entry) == 4 and entry[1] is None
    }
    return {
        "environment": environment,
        "cwd": str(Path.cwd()),
        "path": start.module_path(),
        "cells": cells,
    }


def _collect(
    ranks: start.Forked | start.Fresh, home: Path, world_size: int, timeout: float
) -> list:
    """Wait until all ranks ended, or one failed and the others had their grace, or time is up."""
    codes: dict[int, int] = {}
    deadline = time.monotonic() + timeout
    while len(codes) < world_size and (left := deadline - time.monotonic()) > 0:
        codes.update(ranks.ended(left))
        if any(codes.values()):
            deadline = min(deadline, time.monotonic() + GRACE)
    files = {rank: home / f"result.{rank}" for rank in range(world_size)}
    said = {rank: pickle.loads(file.read_bytes()) for rank, file in files.items() if file.exists()}
    if any(codes.values()) or not codes.keys() <= said.keys():
        raise failure.failed(said, codes, world_size, home)
    if len(said) < world_size:
        raise failure.late(home, world_size, timeout, ranks.ask_stacks)
    return [pickle.loads(said[rank]["value"]) for rank in range(world_size)]


def _echo(home: Path, world_size: int) -> None:
    """What the ranks printed, labelled, rank after rank: the same order every time."""
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        for rank in range(world_size):
            file = home / f"{name}.{rank}"
            for line in file.read_text("utf-8", "replace").splitlines() if file.exists() else ():
                print(f"[rank {rank}] {line}", file=stream)


def _started(world_size: int | None) -> int:
    """How many ranks torchrun started; refused where others were asked for."""
    here = int(os.environ["WORLD_SIZE"])
    if world_size not in (None, here):
        raise checks.InputError(
            f"world_size = {world_size!r}: torchrun started {here} processes; expected {here}"
        )
    return here


def _join(
    fn: Callable,
    world_size: int | None,
    args: tuple,
    kwargs: dict,
    timeout: float,
    threads: int | None,
    device: str,
    cluster: "Cluster | None",
) -> list:
    """This process is a rank that torchrun started: meet the others, call the function, exchange
    results.
    """
    global joined, store
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    from mathlib.launch import rank

    if dist.is_initialized():
        raise RuntimeError(
            f"launch.run inside rank {dist.get_rank()} of a run: this process is a rank already, "
            "call the function itself"
        )
    here = _started(world_size)
    joined, store = joined + 1, store or next(iter(rendezvous("env://")))[0]
    rank.join(
        device,
        threads,
        dist.PrefixStore(f"life {life()}, run {joined}", store),
        rank=int(os.environ["RANK"]),
        world_size=here,
        timeout=timeout,
    )
    try:
        results: list = [None] * here
        with rank.place(cluster):
            value = fn(*args, **kwargs)
        dist.all_gather_object(results, value)
        return results
    finally:
        dist.destroy_process_group()
