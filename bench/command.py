"""The start of the command line, beside a Python that does nothing.

Each is a fresh process with everything compiled before, as an installed program is, wherever this
bench itself may not write its bytecode; they run in turn. `more_seconds` is the median of what a
command takes longer than `python -c pass` in the same round, `aim_seconds` what it may take in all.
"""

import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import rounds

ROOT = Path(__file__).resolve().parents[1]
AIM = 0.1  # seconds from the return key to the answer
NOTHING = "python -c pass"
LINES = (  # what is typed behind `mathlib`
    "--version",
    "params gpt2",
    "memory llama2-7b --zero 3 --data 8",
    "kv llama3-70b --tokens 8k",
    "comm all-reduce --payload 1GB --ranks 8 --bandwidth 300GB/s",
    "cost llama3-70b --train 15T --device h100-sxm --devices 8000",
    "time llama3-8b --cluster p5.48xlarge --data 8 --zero 3",
    'slower "time llama3-8b --device h100-sxm --data 64 --zero 3" 4s',
    "models",
    "where ring",
    "--help",
)


def started(compiled: str, *words: str) -> Callable[[], float]:
    """Seconds of a process, from its start until it has ended; its bytecode lies in a folder."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def seconds() -> float:
        line = [sys.executable, *words]
        begin = time.perf_counter()
        subprocess.run(line, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    return seconds


def race(lines: tuple[str, ...], count: int) -> rounds.Times:
    """Every line and the Python that does nothing, round after round; the first round does not
    count, as it compiles.
    """
    with tempfile.TemporaryDirectory() as folder:
        candidates = {NOTHING: started(folder, "-c", "pass")}
        candidates |= {line: started(folder, "-m", "mathlib", *shlex.split(line)) for line in lines}
        times = rounds.alone(candidates, count + 1)
    return {name: each[1:] for name, each in times.items()}


def rows(quick: bool) -> Iterator[dict]:
    times = race(LINES, 3 if quick else 31)
    for line in LINES:
        more = [a - b for a, b in zip(times[line], times[NOTHING], strict=True)]
        facts = {"more_seconds": round(statistics.median(more), 4), "aim_seconds": AIM}
        yield rounds.row(f"mathlib {line}", times, line, NOTHING, **facts)
