"""The fork server: one process that has imported torch, and forks a fresh rank from itself in
milliseconds.

Loading torch takes two seconds, forking a process that has it takes five milliseconds.  So `launch`
starts this server once and sends it runs.  Over the control socket come only the sockets of runs,
one each; over a run's socket:
    launcher -> server   "4 /dev/shm/ranks-x\nmathlib.model.gpt ...\n" first: fork 4 ranks for the
task in that directory, with these modules of the library loaded; later "stacks\n"
    server -> launcher   "2 -9\n": rank 2 ended, by signal 9
A run lives as long as its socket.  When the launcher closes it (finished, timed out, interrupted,
killed, it is all the same here) every process of the run is killed, its directory removed, and the
server closes its own end.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

# torch._dynamo is not asked for by any rank, but the first optimizer or DDP of a process imports
# it: 1.2 seconds.
PRELOAD = (
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.distributed.fsdp",
)
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _preload() -> None:
    # else it looks through a million objects that imports only add to: a fifth of the time
    gc.disable()
    for name in (*PRELOAD, "cloudpickle", "mathlib.launch.rank"):
        with contextlib.suppress(
            ImportError
        ):  # the rank imports it again, and there the error has a reader
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # collector leaves the pages it shares with its forks alone
    gc.enable()


class Library:
    """This library's modules, loaded here once instead of by every rank (20 to 300 ms each); all
    are forgotten when a file of one has changed.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[Path, int]] = {}  # by module; when it was written

    def load(self, names: list[str]) -> None:
        if any(_written(file) != then for file, then in self.files.values()):
            for name in self.files:
                sys.modules.pop(name, None)
            self.files.clear()
        missing = [name for name in names if name not in sys.modules]
        if missing and "torch" in sys.modules:  # else the rank says that it is not there
            before = set(sys.modules)
            _as_if_never(missing)
            for name in set(sys.modules) - before:
                file = getattr(sys.modules[name], "__file__", None)
                if name.startswith("mathlib.") and file:
                    self.files[name] = Path(file), _written(Path(file))


def _written(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_mtime_ns
    return 0


def _as_if_never(names: list[str]) -> None:
    """Import them, on one thread: a fork cannot use a pool that was made before it. Forks draw
    random numbers as if nothing had been drawn here.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        for name in names:
            with contextlib.suppress(Exception):  # the rank tries again, and tells why
                importlib.import_module(name)
    torch.set_num_threads(threads)


class Run:
    """The living ranks of one run, and the socket that holds them alive."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        with sock.makefile() as lines:
            world_size, self.directory = lines.readline().strip().split(" ", 1)
            self.modules = lines.readline().split()
        self.ranks: dict[int, int] = {}  # pid -> rank
        self.world_size = int(world_size)

    def say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more: the run is about to be closed
            self.sock.sendall(line.encode())

    def end(self) -> None:
        for pid in self.ranks:
            kill_group(pid)
        for pid in self.ranks:
            os.waitpid(pid, 0)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.sock.close()


def kill_group(leader: int) -> None:
    """Kill a rank that is not yet reaped, and whatever it started (data loaders, say): it leads its
    own group, or has left it.
    """
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(leader, signal.SIGKILL)


class Server:
    """Forks ranks on request, reports how each ended, kills those whose launcher is gone."""

    def __init__(self, control: socket.socket, parent: int):
        self.pid, self.control, self.runs = os.getpid(), control, set[Run]()
        self.selector, self.library = selectors.DefaultSelector(), Library()
        self.woken, wake = socket.socketpair()
        for end in (self.woken, wake):
            end.setblocking(False)
        self.wake = wake
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(
            signal.SIGCHLD, lambda *_: None
        )  # a handler that exists is what makes the wake-up byte arrive
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._watch(self.woken, self._reap)
        self._watch(control, self._accept)
        self._watch(
            os.pidfd_open(parent), self._stop
        )  # the socket may have been inherited by a fork of the launcher

    def _watch(self, what: socket.socket | int, do: Callable[[], None]) -> None:
        self.selector.register(what, selectors.EVENT_READ, do)

    def serve(self) -> NoReturn:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj in self.selector.get_map():  # not closed by an event just before
                    key.data()

    def _stop(self) -> NoReturn:
        for run in self.runs:
            run.end()
        os._exit(0)

    def _accept(self) -> None:
        _, fds, _, _ = socket.recv_fds(self.control, 1, 1)
        if not fds:  # end of file: the launcher's process is gone
            self._stop()
        run = Run(socket.socket(fileno=fds[0]))
        self.runs.add(run)
        self._watch(run.sock, lambda: self._hear(run))
        self.library.load(run.modules)
        for rank in range(run.world_size):
            pid = os.fork()
            if not pid:
                self._become(run, rank)
            os.setpgid(pid, pid)
            run.ranks[pid] = rank

    def _become(self, run: Run, rank: int) -> NoReturn:
        """What the fork does: drop all that is the server's, then be a rank."""
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.pid:  # the server died before the line above
                os._exit(1)
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            self.selector.close()
            for sock in (self.control, self.woken, self.wake, *(r.sock for r in self.runs)):
                sock.close()
            importlib.import_module("mathlib.launch.rank").main(run.directory, rank)
        finally:
            os._exit(70)

    def _hear(self, run: Run) -> None:
        if run.sock.recv(64):  # the only request there is: show where you stand
            for pid in run.ranks:
                os.kill(pid, signal.SIGUSR1)
            return
        self.selector.unregister(run.sock)
        self.runs.remove(run)
        run.end()

    def _reap(self) -> None:
        self.woken.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                kill_group(
                    ended.si_pid
                )  # while the dead rank is not reaped, its number is nobody else's
                code = os.waitstatus_to_exitcode(os.waitpid(ended.si_pid, 0)[1])
                for run in self.runs:
                    if ended.si_pid in run.ranks:
                        run.say(f"{run.ranks.pop(ended.si_pid)} {code}\n")


def main(control: int, parent: int) -> NoReturn:
    """Entry point of the server's process: the number of its control socket, and the process it
    serves.
    """
    _preload()
    Server(socket.socket(fileno=control), parent).serve()
