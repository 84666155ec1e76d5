"""One rank, from the task in the run's directory to its result in the same directory.

task      pickled: world_size, call (cloudpickle of function and arguments), timeout, threads,
device, and the launcher's environment, directory, module path and notebook cells
out.r err.r   what rank r printed          stack.r   where it stood when asked (SIGUSR1)
result.r      pickled: value (cloudpickle) or error (text), and when (seconds, clock of the machine)
"""

import contextlib
import faulthandler
import linecache
import os
import pickle
import shutil
import signal
import sys
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from torch.distributed import Store

    from mathlib.launch.namespaces import Place
    from mathlib.schedule.cluster import Cluster

# seconds a collective may outlast the run: the launcher, which sees all ranks, gives up first
SPARE = 60.0


def main(directory: str, rank: int) -> NoReturn:
    """Run the task as one rank and leave: exit code 0 with a value, 1 with an error."""
    home = Path(directory)
    task = pickle.loads((home / "task").read_bytes())
    _settle(task, home, rank)
    outcome: dict[str, bytes | str | float]
    try:
        outcome = {"value": _call(task, home, rank)}
    # SystemExit and KeyboardInterrupt of a rank are failures of the run too
    except BaseException as error:
        outcome = {
            "error": _explain(error),
            "summary": traceback.format_exception_only(error)[-1].strip(),
        }
    outcome["when"] = time.time()
    sys.stdout.flush()
    sys.stderr.flush()
    (home / f"result.{rank}.part").write_bytes(pickle.dumps(outcome))
    (home / f"result.{rank}.part").rename(home / f"result.{rank}")
    if "value" in outcome:
        _wait_for_others()
    # no destructors: what a run leaves behind, the system takes back faster
    os._exit(1 if "error" in outcome else 0)


def leave_with_launcher(directory: str) -> None:
    """For a rank that no server watches over: when standard input ends, the launcher is gone, and
    so is the run.
    """

    def watch() -> None:
        os.read(0, 1)
        shutil.rmtree(directory, ignore_errors=True)
        if hasattr(os, "killpg"):
            os.killpg(os.getpgrp(), signal.SIGKILL)  # the group that this rank leads
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _wait_for_others() -> None:
    """A rank that leaves closes its connections, while others may be opening theirs to it: so all
    leave together.
    """
    import torch.distributed as dist

    if dist.is_initialized():
        with contextlib.suppress(RuntimeError):  # another rank failed, and tells why
            dist.barrier()


def _settle(task: dict, home: Path, rank: int) -> None:
    """Stand where the launcher stands: environment, directory, modules. What is printed goes to
    files.
    """
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(home / f"{name}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    text: dict = {
        "buffering": 1,
        "closefd": False,
        "encoding": "utf-8",
        "errors": "backslashreplace",
    }
    sys.stdout = open(1, "w", **text)  # noqa: SIM115
    sys.stderr = open(2, "w", **text)  # noqa: SIM115
    if hasattr(faulthandler, "register"):
        file = os.open(home / f"stack.{rank}", os.O_WRONLY | os.O_CREAT)
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=False)
    world = task["world_size"]
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    os.environ.clear()
    os.environ.update(task["environment"] | {name: str(value) for name, value in place.items()})
    os.chdir(task["cwd"])
    sys.path[:] = task["path"]
    if "place" in task and task["place"].paths:  # before a thread or a socket is made
        from mathlib.launch import namespaces

        namespaces.enter(task["place"].paths[rank])
        os.environ["GLOO_SOCKET_IFNAME"] = namespaces.PORT
    linecache.cache.update(task["cells"])  # so that a traceback can quote the notebook


def _call(task: dict, home: Path, rank: int) -> bytes:
    import cloudpickle
    import torch.distributed as dist

    dist.set_debug_level_from_env()  # of the launcher now, not when the server loaded torch
    join(
        task["device"],
        task["threads"],
        dist.FileStore(str(home / "store"), task["world_size"]),
        rank=rank,
        world_size=task["world_size"],
        timeout=task["timeout"] + SPARE,
    )
    fn, args, kwargs = cloudpickle.loads(task["call"])
    with place(task.get("cluster"), task.get("place")), watch(home, rank, task["watch"]):
        value = fn(*args, **kwargs)
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"rank {rank} returned a {type(value).__name__} that cannot be pickled: {error}"
        ) from None


def watch(home: Path, rank: int, asked: bool) -> contextlib.AbstractContextManager:
    """Write down what this rank waits for, if somebody asked."""
    if not asked:
        return contextlib.nullcontext()
    from mathlib.launch import waiting

    return waiting.watched(home, rank)


def place(
    cluster: "Cluster | None", where: "Place | None" = None
) -> contextlib.AbstractContextManager:
    """Hold this rank to a cluster's links, speed and death, if it is part of one; torchrun's ranks
    have no place of their own.
    """
    if not cluster:
        return contextlib.nullcontext()
    from mathlib.launch import lab, namespaces

    return lab.held(cluster, where or namespaces.Place("paced", "torchrun started the ranks"))


def join(
    device: str, threads: int | None, store: "Store", *, rank: int, world_size: int, timeout: float
) -> None:
    """Make this process a rank of the default group: gloo for device "cpu", nccl for "cuda"."""
    import torch
    import torch.distributed as dist

    if threads:
        torch.set_num_threads(threads)
    if device == "cuda":
        local, here = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= here:
            raise RuntimeError(
                f'device = "cuda": local rank {local} has no GPU, this machine shows {here}'
            )
        torch.cuda.set_device(local)
    _wake_up_without_haste()
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=timeout),
    )


def _wake_up_without_haste() -> None:
    """Threads that begin from here on take no core from another as they wake up. gloo's own takes
    it from the thread that holds the lock for which it then asks again and again: where ranks
    outnumber cores, two thirds of the processor's time.
    """
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):  # a container may forbid it; then it is only slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _explain(error: BaseException) -> str:
    """The traceback from the caller's function on, without the launcher's own frames."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
