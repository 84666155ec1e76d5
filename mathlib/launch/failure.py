"""How a run that did not end well is told: who failed first, with its traceback, and where the
others stand.

said      rank -> what it wrote when it left: "value" or "error" and "summary", and "when" (seconds)
codes     rank -> exit code, for those that ended; negative = number of the signal
"""

import contextlib
import linecache
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

ANSWER = 1.0  # seconds a rank gets to say where it stands
RANK_FILE = str(Path(__file__).with_name("rank.py"))


class RankError(RuntimeError):
    """A rank failed. `failures` maps rank to what it said, in the order in which they failed;
    `rank` is the first.
    """

    def __init__(self, message: str, failures: dict[int, str] | None = None):
        super().__init__(message)
        self.failures = failures or {}
        self.rank = next(iter(self.failures), None)


class RankTimeout(RankError, TimeoutError):
    """Some rank did not finish in time; the message shows where each one stands."""


def failed(said: dict[int, dict], codes: dict[int, int], world_size: int) -> RankError:
    """The first failure in full, the others in a line each. A rank that died without a word comes
    first.
    """
    mute = {rank: _death(code) for rank, code in sorted(codes.items()) if rank not in said}
    spoke = sorted(
        (rank for rank in said if "error" in said[rank]), key=lambda rank: said[rank]["when"]
    )
    failures = mute | {rank: said[rank]["error"] for rank in spoke}
    first, *others = failures
    lines = [f"rank {first} failed{' first' if others else ''}:", failures[first]]
    lines += [
        f"then rank {rank}: {_brief(said[rank]['summary']) if rank in said else mute[rank]}"
        for rank in others
    ]
    if stopped := [f"rank {rank}" for rank in range(world_size) if rank not in codes]:
        lines.append(f"stopped because of it: {', '.join(stopped)}")
    return RankError("\n".join(lines), failures)


def _brief(summary: str) -> str:
    """One line for a rank that is most likely a victim of the first."""
    lost = "by peer" in summary or "connectFullMesh" in summary
    return "it lost the connection to another rank" if lost else summary.partition("\n")[0]


def _death(code: int) -> str:
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name} ({signal.strsignal(-code)})"
    return f"it left with exit code {code} before its function returned"


def late(home: Path, world_size: int, timeout: float, ask: Callable[[], None]) -> RankTimeout:
    """Ask the ranks that still run for their stacks, and show them."""
    stands = {rank: "" for rank in range(world_size) if not (home / f"result.{rank}").exists()}
    ask()
    deadline = time.monotonic() + ANSWER
    while not all(stands.values()) and time.monotonic() < deadline:
        time.sleep(0.01)
        for rank in stands:
            with contextlib.suppress(OSError):
                stands[rank] = stack((home / f"stack.{rank}").read_text())
    lines = [
        f"{len(stands)} of {world_size} ranks did not finish in {timeout:g} seconds. Where they "
        "stand:"
    ]
    for rank in range(world_size):
        lines.append(
            f"rank {rank}:{stands[rank] or ' no answer'}"
            if rank in stands
            else f"rank {rank}: finished"
        )
    return RankTimeout("\n".join(lines), stands)


def stack(dump: str) -> str:
    """An interpreter's dump (innermost call first) as a traceback reads, from the caller's function
    on.
    """
    frames = re.findall(r'File "(.+)", line (\d+) in (\S+)', dump)
    entry = next(
        (index for index, (name, _, _) in enumerate(frames) if name == RANK_FILE), len(frames)
    )
    lines = []
    for name, number, function in reversed(frames[:entry] or frames):
        source = linecache.getline(name, int(number)).strip()
        lines += [f'  File "{name}", line {number}, in {function}'] + [f"    {source}"] * bool(
            source
        )
    return "\n".join(["", *lines]) if lines else ""
