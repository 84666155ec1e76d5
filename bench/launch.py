"""From a function to the results of N ranks: our launcher against what PyTorch offers for the
same.
"""

import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import rounds

from mathlib import launch

HELLO = """
import torch, torch.distributed as dist

def mean_rank():
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x)
    return x.item()

def leave():
    dist.barrier()  # a rank that leaves early breaks those that still connect to it (ours waits)
    dist.destroy_process_group()
"""
FIRST = """
import time
import hello
from mathlib import launch
begin = time.perf_counter()
launch.run(hello.mean_rank, {n})
print(time.perf_counter() - begin)
"""
SPAWN = """
import sys, tempfile, time
import torch.distributed as dist, torch.multiprocessing as mp
import hello

def rank(number, n, file):
    dist.init_process_group("gloo", init_method="file://" + file, rank=number, world_size=n)
    hello.mean_rank()
    hello.leave()

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        begin = time.perf_counter()
        mp.start_processes(rank, args=({n}, home + "/store"), nprocs={n}, start_method="spawn")
        print(time.perf_counter() - begin)
"""
ELASTIC = """
import time
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
import torch.distributed as dist
import hello

def rank():
    dist.init_process_group("gloo")
    hello.mean_rank()
    hello.leave()

if __name__ == "__main__":
    place = {{"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": "{id}"}}
    config = LaunchConfig(1, 1, {n}, monitor_interval=0.05, **place)
    begin = time.perf_counter()
    elastic_launch(config, rank)()
    print(time.perf_counter() - begin)
"""
TORCHRUN = """
import torch.distributed as dist
import hello
dist.init_process_group("gloo")
hello.mean_rank()
hello.leave()
"""


def output(home: Path, command: list[str]) -> str:
    return subprocess.run(command, cwd=home, check=True, capture_output=True, text=True).stdout


def told(home: Path, script: str, n: int) -> float:
    """Seconds that a script says its launch took, its own imports left out."""
    (home / "script.py").write_text(script.format(n=n, id=uuid.uuid4()))
    return float(output(home, [sys.executable, "script.py"]).split()[-1])


def timed(command: Callable[[], object]) -> float:
    begin = time.perf_counter()
    command()
    return time.perf_counter() - begin


def rows(quick: bool) -> Iterator[dict]:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "hello.py").write_text(HELLO)
        (home / "torchrun.py").write_text(TORCHRUN)
        sys.path.insert(0, place)
        import hello

        launch.run(hello.mean_rank, 1)
        for n in (4, 8):
            torchrun = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={n}",
            ]
            times = rounds.alone(
                {
                    "later run": lambda n=n: timed(lambda: launch.run(hello.mean_rank, n)),
                    "first run": lambda n=n: told(home, FIRST, n),
                    "spawn": lambda n=n: told(home, SPAWN, n),
                    "elastic_launch": lambda n=n: told(home, ELASTIC, n),
                    "torchrun": lambda command=torchrun: timed(
                        lambda: output(home, [*command, "torchrun.py"])
                    ),
                },
                rounds=1 if quick else 3,
            )
            for ours in ("first run", "later run"):
                for theirs in ("spawn", "elastic_launch", "torchrun"):
                    yield rounds.row(f"{n} ranks", times, ours, theirs, ranks=n)
        sys.path.remove(place)
