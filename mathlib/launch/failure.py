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

from mathlib.launch import waiting

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


def failed(said: dict[int, dict], codes: dict[int, int], world_size: int, home: Path) -> RankError:
    """The first failure in full, the others in a line each. A rank that died without a word comes
    first.
    """
    spoke = sorted(
        (rank for rank in said if "error" in said[rank]), key=lambda rank: said[rank]["when"]
    )
    mute = {
        rank: _death(code, rank in said, home / f"err.{rank}")
        for rank, code in sorted(codes.items())
        if rank not in spoke and (code or rank not in said)
    }
    failures = mute | {rank: said[rank]["error"] for rank in spoke}
    first, *others = failures
    lines = [f"rank {first} failed{' first' if others else ''}:", failures[first]]
    lines += [
        f"then rank {rank}: {mute[rank] if rank in mute else _brief(said[rank]['summary'])}"
        for rank in others
    ]
    if stopped := [f"rank {rank}" for rank in range(world_size) if rank not in codes]:
        lines.append(f"stopped because of it: {', '.join(stopped)}")
    return RankError("\n".join(lines), failures)


def _brief(summary: str) -> str:
    """One line for a rank that is most likely a victim of the first."""
    lost = "by peer" in summary or "connectFullMesh" in summary
    return "it lost the connection to another rank" if lost else summary.partition("\n")[0]


def _death(code: int, returned: bool, words: Path) -> str:
    """How a rank ended that said nothing of it, with what a C++ library said."""
    moment = f"{'after' if returned else 'before'} its function returned"
    if code >= 0:
        return f"it left with exit code {code} {moment}"
    known = -code in set(signal.Signals)
    name = signal.Signals(-code).name if known else f"signal {-code}"
    last = re.findall(r"what\(\): +(.+)", words.read_text("utf-8", "replace"))
    told = f"; {_plain(last[-1])}" if last else ""
    return f"it was ended by {name} ({signal.strsignal(-code)}) {moment}{told}"


def _plain(last: str) -> str:
    """The last words of a C++ library; gloo's on a message that is too long, in words of ours."""
    lengths = re.search(r"op\.preamble\.length <= op\.nbytes\. (\d+) vs (\d+)", last)
    if not lengths:
        return f"its last words: {last}"
    came, room = lengths.groups()
    return (
        f"a message of {came} bytes came where it had room for {room}, so the ranks' tensors "
        "differ in length or type. TORCH_DISTRIBUTED_DEBUG=DETAIL tells whose, at every collective"
    )


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
    lines += waiting.told(home, world_size)
    if gone := [str(rank) for rank in range(world_size) if rank not in stands]:
        lines.append(
            f"Do they wait for rank {', '.join(gone)}, whose function has returned? Then it left "
            "out a collective that the others take part in (a backward, say)."
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
        lines.append(f'  File "{name}", line {number}, in {function}')
        if source:
            lines.append(f"    {source}")
    return "\n".join(["", *lines]) if lines else ""
