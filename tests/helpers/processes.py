"""What the tests of the launcher share, in a module that ranks can import."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from patience import PATIENCE

ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(Path(__file__).parents[2])
}  # of a process that imports mathlib


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def own_directories() -> list[Path]:
    return list(Path("/dev/shm").glob(f"ranks-{os.getpid()}-*"))


def eventually(what, seconds: float = PATIENCE):
    """Wait for something that must become true, and fail if it does not."""
    until = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)
    return value


def mean_of_ranks(scale: float, shift: float = 0.0) -> tuple[int, float]:
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x)
    return dist.get_rank(), x.item() / dist.get_world_size() * scale + shift


def raises():
    if dist.get_rank() == 1:
        raise ValueError("the learning rate is a banana")
    dist.barrier()
