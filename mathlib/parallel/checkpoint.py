"""Sharded checkpoints: every rank saves its shards, and any number of ranks goes on from them.

A checkpoint is a folder `step-00000012`, written beside under another name and renamed when all of
it is on the disk: whatever has that name is whole, and the latest is found by listing. Inside are
boxes of tensors by the parameters' names, in the format of torch.distributed.checkpoint.
"""

import copy
import random
import shutil
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from os import O_RDONLY, PathLike, close, fsync
from os import open as open_folder
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from mathlib.checks import InputError
from mathlib.parallel.boxes import Held, LoadBoxes, SaveBoxes, whole
from mathlib.parallel.checkpoint_state import check_fit, make_states, state_of, tensors
from mathlib.parallel.zero.stage1 import Zero1

WRITING = ".writing"  # what a folder's name ends with until all of it is there


def save(
    zero: Zero1,
    folder: str | PathLike,
    step: int,
    progress: Any = None,
    writer: type[dcp.FileSystemWriter] = dcp.FileSystemWriter,
) -> Path:
    """Save weights, optimizer states, each rank's random generators and its `progress`, whatever
    else the run must know; right after a step.
    """
    return write(state_of(zero, step, progress), Path(folder), step, zero.everyone, writer)


def latest(folder: str | PathLike) -> Path | None:
    """The checkpoint of the latest step, or None."""
    found = sorted(Path(folder).glob("step-*[0-9]"))
    return max(found, key=lambda path: int(path.name[5:]), default=None)


def resume(zero: Zero1, checkpoint: str | PathLike) -> tuple[int, Any]:
    """Bring the sharded module and its optimizer to the checkpoint; returns its step and progress.

    The ranks may be more or fewer, and the stage another. Where they are as many, each goes on with
    its own random numbers and progress; else with its present generators and rank 0's progress.
    """
    path = Path(checkpoint)
    run = read_run(path)
    saved = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    check_fit(zero, run, saved)
    for options, group in zip(run["groups"], zero.optimizer.param_groups, strict=True):
        group.update({key: value for key, value in options.items() if key != "names"})
    make_states(zero, run, saved)
    state: dict[str, Any] = dict(tensors(zero))
    dcp.load(
        state,
        storage_reader=dcp.FileSystemReader(path),
        planner=LoadBoxes(),
        process_group=zero.everyone,
    )
    show_weights(zero)
    if len(run["ranks"]) != dist.get_world_size(zero.everyone):
        return run["step"], run["ranks"][0]["progress"]
    mine = run["ranks"][dist.get_rank(zero.everyone)]
    torch.set_rng_state(mine["torch"])
    random.setstate(mine["python"])
    return run["step"], mine["progress"]


@torch.no_grad()
def show_weights(zero: Zero1) -> None:
    """Whoever has whole rows gets what the shards have now; the others are gathered when needed."""
    for row in zero.every_row():
        if row.kept:
            row.publish().wait()
        else:
            row.release()


def weights(checkpoint: str | PathLike) -> dict[str, Tensor]:
    """All weights and buffers, as a plain module's load_state_dict takes them; needs no ranks."""
    path = Path(checkpoint)
    saved = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    state: dict[str, Any] = {
        name: whole(torch.empty(tensor.size, dtype=tensor.properties.dtype))
        for name, tensor in saved.items()
        if isinstance(tensor, TensorStorageMetadata) and name.startswith("model.")
    }
    _load_alone(state, path)
    found = {name[6:]: next(iter(held.views.values())) for name, held in state.items()}
    return found | {other: found[name] for other, name in read_run(path)["tied"].items()}


class Background:
    """Saves that are written while training goes on, one at a time: a save begins with a copy of
    this rank's numbers, and only that takes the training's time.

    Leaving the `with` block waits for the last.
    """

    def __init__(self, zero: Zero1, folder: str | PathLike):
        self.zero, self.folder = zero, Path(folder)
        ranks = dist.get_process_group_ranks(zero.everyone or dist.group.WORLD)
        # collectives of its own, lest they mix with the training's
        self.group = dist.new_group(ranks, use_local_synchronization=zero.everyone is not None)
        self.worker = ThreadPoolExecutor(1)
        self.last: Future | None = None

    def save(self, step: int, progress: Any = None) -> Future:
        """Begin to save the present state; the future's result is the checkpoint."""
        self.wait()
        state = {
            name: value.snapshot() if isinstance(value, Held) else copy.deepcopy(value)
            for name, value in state_of(self.zero, step, progress).items()
        }
        self.last = self.worker.submit(write, state, self.folder, step, self.group)
        return self.last

    def wait(self) -> None:
        """Until the last save is on the disk; what went wrong with it is raised here."""
        if self.last:
            self.last.result()

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.wait()
        finally:
            self.worker.shutdown()


def write(
    state: dict[str, Any],
    folder: Path,
    step: int,
    group: ProcessGroup | None,
    writer: type[dcp.FileSystemWriter] = dcp.FileSystemWriter,
) -> Path:
    """Write beside, all ranks together, then give it its name."""
    final = folder / f"step-{step:08d}"
    beside = final.with_name(final.name + WRITING)
    if final.exists():
        raise InputError(f"step = {step}: a checkpoint of it stands in {folder}, expected another")
    dist.barrier(group)
    first = dist.get_rank(group) == 0
    if first:  # what a save that was killed has left
        folder.mkdir(parents=True, exist_ok=True)
        for broken in folder.glob(f"*{WRITING}"):
            shutil.rmtree(broken)
        beside.mkdir()
    dist.barrier(group)
    files = writer(beside, sync_files=True)
    dcp.save(state, storage_writer=files, planner=SaveBoxes(), process_group=group)
    if first:  # every rank's files are on the disk
        _to_disk(beside)
        beside.rename(final)
        _to_disk(folder)
    dist.barrier(group)
    return final


def _to_disk(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    number = open_folder(folder, O_RDONLY)
    try:
        fsync(number)
    finally:
        close(number)


def _load_alone(state: dict[str, Any], path: Path) -> None:
    """Fill a state without asking other ranks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        reader = dcp.FileSystemReader(path)
        dcp.load(state, storage_reader=reader, planner=LoadBoxes(), no_dist=True)


def read_run(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = {"run": None}
    _load_alone(state, path)
    return state["run"]
