"""A step of the small GPT under our ZeRO and MiCS and under PyTorch's own; checkpoints' cost.

Peak memory is what the system counts: the most of this rank's pages that were resident during
three steps, less those before the model was built, each candidate in a fresh process. glibc would
keep freed rows for later, and count 1.5 times as much; it is told to give them back at once.
"""

import ctypes
import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import rounds
import torch
import torch.distributed as dist
from shapes import CONTEXT, SEQUENCES, shape
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel import checkpoint
from mathlib.parallel.zero.mics import Mics
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.specs import Model

ADAMW = {"lr": 1e-3, "fused": True}
M_MMAP_THRESHOLD = -3  # mallopt's number for it
Step = Callable[[], None]


def make(groups: list) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, **ADAMW)


def a_step(wrapped: torch.nn.Module, update: Step) -> Step:
    def step() -> None:
        oracle.loss(wrapped, *data.batch(SEQUENCES, CONTEXT)).backward()
        update()

    return step


def torch_update(optimizer: torch.optim.Optimizer) -> Step:
    def update() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return update


def zero_redundancy(model: torch.nn.Module) -> Step:
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    given = {"optimizer_class": torch.optim.AdamW, "parameters_as_bucket_view": True}
    return a_step(
        wrapped, torch_update(ZeroRedundancyOptimizer(model.parameters(), **given, **ADAMW))
    )


def fsdp2(model: torch.nn.Module, replicas: int = 1) -> Step:
    sizes = (replicas, dist.get_world_size() // replicas)
    names = ("replica", "shard")
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names) if replicas > 1 else None
    mesh = mesh or init_device_mesh("cpu", sizes[1:])
    for part in [*model.blocks, model]:
        fully_shard(part, mesh=mesh)
    return a_step(model, torch_update(make(list(model.parameters()))))


CANDIDATES: dict[str, Callable[[torch.nn.Module], Step]] = {
    "ZeRO-1": lambda model: a_step(model, Zero1(model, make).step),
    "ZeroRedundancyOptimizer": zero_redundancy,
    "ZeRO-3": lambda model: a_step(model, Zero3(model, make, model.blocks).step),
    "FSDP2": fsdp2,
    "MiCS": lambda model: a_step(  # HSDP, too, has one row of gradients in flight
        model, Mics(model, make, model.blocks, shard=2, in_flight=1).step
    ),
    "HSDP": lambda model: fsdp2(model, replicas=dist.get_world_size() // 2),
}

PAIRS = {"ZeRO-1": "ZeroRedundancyOptimizer", "ZeRO-3": "FSDP2", "MiCS": "HSDP"}


def race(names: list[str], model: Model, quick: bool) -> rounds.Times:
    steps = {name: CANDIDATES[name](gpt.GPT(model)) for name in names}
    return rounds.on_ranks(steps, rounds=2 if quick else 30)


def resident(what: str) -> int:
    """Bytes of this process's pages: VmRSS now, VmHWM at most since the last reset."""
    told = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{what}:\s+(\d+) kB", told)[1])


def peak(name: str, model: Model) -> int:
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)
    before = resident("VmRSS")
    step = CANDIDATES[name](gpt.GPT(model))
    step()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    for _ in range(3):
        step()
    return resident("VmHWM") - before


def saving(folder: str, model: Model, quick: bool, steps: int = 8) -> tuple[rounds.Times, int]:
    """So many steps: with no checkpoint, one at the start that they wait for, one behind them."""
    module, numbers = gpt.GPT(model), count(1)
    zero = Zero3(module, make, module.blocks)
    step = a_step(module, zero.step)
    with checkpoint.Background(zero, folder) as background:

        def train(save: Callable[[int], object]) -> None:
            save(next(numbers))
            for _ in range(steps):
                step()

        ways = {
            "in the background": lambda: train(background.save),
            "synchronous": lambda: train(lambda number: checkpoint.save(zero, folder, number)),
            "no checkpoint": lambda: train(lambda _: None),
        }
        ways = {name: lambda way=way: (way(), background.wait()) for name, way in ways.items()}
        times = rounds.on_ranks(ways, rounds=2 if quick else 8)
    dist.barrier()
    written = sum(file.stat().st_size for file in checkpoint.latest(folder).iterdir())
    return times, written


def rows(quick: bool) -> Iterator[dict]:
    sizes = [(2, 8, 256), (4, 8, 256)]
    if not quick:
        sizes += [(2, 4, 256), (2, 16, 256), (2, 8, 128), (2, 8, 512)]
    for ranks, layers, width in sizes:
        for ours, theirs in PAIRS.items():
            if ours == "MiCS" and ranks < 4:
                continue
            model = shape(layers, width)
            times = launch.run(race, ranks, [ours, theirs], model, quick, timeout=900)[0]
            held = {
                f"{who}_peak_bytes": max(launch.run(peak, ranks, name, model, timeout=300))
                for who, name in (("ours", ours), ("theirs", theirs))
            }
            label = f"GPT step, {layers} layers of width {width}, {ranks} ranks"
            yield rounds.row(label, times, ours, theirs, ranks=ranks, **held)
    with tempfile.TemporaryDirectory() as folder:
        times, written = launch.run(saving, 2, folder, shape(layers=4), quick, timeout=900)[0]
    label = f"8 steps and a checkpoint of {written / 1e6:.0f} MB, 2 ranks"
    for theirs in ("synchronous", "no checkpoint"):
        yield rounds.row(label, times, "in the background", theirs, ranks=2, bytes=written)
