"""Two ways to start the processes of a run. Both: ended(seconds) yields (rank, exit code),
ask_stacks(), close().

Forked    by the fork server, from a process that has torch loaded: milliseconds a rank. Linux.
Fresh     an interpreter each, which loads torch itself: seconds. Anywhere.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from mathlib.launch.failure import RankError

ENTRY = "import sys; sys.path[:] = sys.argv[1].split('\\n'); from mathlib.launch import"
ROOMS = tuple(f"mathlib.{room}." for room in ("meters", "model", "parallel", "trials"))
LOOK = 0.01  # seconds between two looks at processes that cannot be waited for together


def module_path() -> list[str]:
    """sys.path of this process, in words that mean the same in another directory."""
    return [str(Path(entry or ".").absolute()) for entry in sys.path]


def modules() -> list[str]:
    """The modules of runs that are loaded here, and so are likely to be asked for by the ranks."""
    return [name for name in sys.modules if name.startswith(ROOMS)]


def _environment() -> dict[str, str]:
    """What has to be set before torch is loaded: one thread in numpy's BLAS, no log of what
    exceptions tell too.
    """
    return {"OPENBLAS_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL"} | os.environ


class Forked:
    """Ranks forked by a server that has torch loaded."""

    _lock = threading.Lock()
    _server: subprocess.Popen | None = None
    _control: socket.socket | None = None
    _owner = 0  # the process that started the server; a fork of that process starts its own

    def __init__(self, home: Path, world_size: int):
        self.rest = b""
        self.sock, theirs = socket.socketpair()
        self.sock.sendall(f"{world_size} {home}\n{' '.join(modules())}\n".encode())
        with theirs, self._lock:
            try:
                socket.send_fds(self._connect(), [b"+"], [theirs.fileno()])
            except OSError:  # that server has died
                self._clear_away()
                socket.send_fds(self._connect(), [b"+"], [theirs.fileno()])

    @classmethod
    def _connect(cls) -> socket.socket:
        """The control socket of this process's server, which is started if there is none."""
        if not (cls._control and cls._owner == os.getpid()):
            cls._control = cls._serve()
            cls._owner = os.getpid()
        return cls._control

    @classmethod
    def _serve(cls) -> socket.socket:
        control, theirs = socket.socketpair()
        call = f"{ENTRY} forkserver; forkserver.main({theirs.fileno()}, {os.getpid()})"
        with theirs:
            cls._server = subprocess.Popen(
                [sys.executable, "-c", call, "\n".join(module_path())],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        return control

    @classmethod
    def _clear_away(cls) -> None:
        if cls._control and cls._server:
            cls._control.close()
            cls._control = None
            cls._server.kill()
            cls._server.wait()

    def ended(self, seconds: float) -> Iterator[tuple[int, int]]:
        self.sock.settimeout(seconds)
        try:
            data = self.sock.recv(4096)
        except TimeoutError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            raise RankError(
                "the server that forks the ranks has died; the next run starts a new one"
            )
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            rank, code = map(int, line.split())
            yield rank, code

    def ask_stacks(self) -> None:
        self.sock.sendall(b"stacks\n")

    def close(self) -> None:
        """Hang up, which kills what still runs; when the server hangs up too, everything is
        gone.
        """
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
            self.sock.settimeout(5)
            while self.sock.recv(4096):
                pass
        self.sock.close()


class Fresh:
    """Ranks that are new interpreters. Each reads its standard input, and leaves when the
    launcher's end is gone.
    """

    def __init__(self, home: Path, world_size: int):
        self.running: dict[int, subprocess.Popen] = {}
        for rank in range(world_size):
            call = (
                f"{ENTRY} rank; rank.leave_with_launcher({str(home)!r}); "
                f"rank.main({str(home)!r}, {rank})"
            )
            self.running[rank] = subprocess.Popen(
                [sys.executable, "-c", call, "\n".join(module_path())],
                env=_environment(),
                stdin=subprocess.PIPE,
                start_new_session=True,
            )

    def ended(self, seconds: float) -> Iterator[tuple[int, int]]:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if gone := [rank for rank, process in self.running.items() if _has_ended(process)]:
                for rank in gone:
                    process = self.running.pop(rank)
                    _close_input(process)
                    yield rank, process.wait()
                return
            time.sleep(LOOK)

    def ask_stacks(self) -> None:
        for process in self.running.values():
            if hasattr(signal, "SIGUSR1"):
                process.send_signal(signal.SIGUSR1)

    def close(self) -> None:
        for process in self.running.values():
            _kill(process)
        for process in self.running.values():
            _close_input(process)
            process.wait()


def _has_ended(process: subprocess.Popen) -> bool:
    """Whether it has; then what it started ends too, while its number is still nobody else's."""
    if hasattr(os, "waitid"):
        if not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return False
        _kill(process)
    return process.poll() is not None


def _kill(process: subprocess.Popen) -> None:
    """A rank leads a session, and so the group of all that it started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _close_input(process: subprocess.Popen) -> None:
    if process.stdin:
        process.stdin.close()
