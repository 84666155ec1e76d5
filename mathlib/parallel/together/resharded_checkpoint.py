"""Checkpoints of a run along all axes, which a run of any other layout can go on from.

Every rank saves its parts as boxes of the whole model's tensors: weights by their names in it, and
what the optimizer keeps of each by the same names. So nothing is left of the layout, and `weights`
of `parallel.checkpoint` reads them without ranks.
"""

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor

from mathlib.checks import InputError
from mathlib.parallel.alike import told_by_all
from mathlib.parallel.boxes import Held, LoadBoxes
from mathlib.parallel.checkpoint import read_run, show_weights, write
from mathlib.parallel.together.hybrid_parallel import HybridParallel
from mathlib.parallel.together.updates import Leaf


def save(way: HybridParallel, folder: str | PathLike, step: int, progress: Any = None) -> Path:
    """Save weights, optimizer states and `progress`, right after a step; all ranks call it."""
    leaves = way.updates.leaves
    parameters = [*way.stage.places, *(leaf.numbers for leaf in leaves)]
    if any(p.grad is not None for p in parameters):
        raise InputError(
            f"step = {step}: gradients have come that no update has used, expected a save right "
            "after a step"
        )
    others = {
        name: {key: value for key, value in _state(leaf).items() if not _like(value, leaf)}
        for leaf in leaves
        if _state(leaf)
        for name in names(way, leaf)
    }
    run = {
        "step": step,
        "progress": progress,
        "optimizer": type(leaves[0].optimizer).__name__,
        "options": _options(leaves[0].optimizer.param_groups[0]),
        "others": {name: of for told in told_by_all(others, None) for name, of in told.items()},
        "tied": {"head.weight": "tokens.weight"} if way.model.tied else {},
    }
    return write({"run": run, **dict(tensors(way))}, Path(folder), step, None)


def resume(way: HybridParallel, checkpoint: str | PathLike) -> tuple[int, Any]:
    """Bring a run of any layout to the checkpoint; returns its step and progress."""
    path = Path(checkpoint)
    run, saved = read_run(path), dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    _check(way, run, saved)
    for leaf in way.updates.leaves:
        for group in leaf.optimizer.param_groups:
            group.update(run["options"])
        _make_states(way, leaf, run["others"], saved)
    state: dict[str, Any] = dict(tensors(way))
    dcp.load(state, storage_reader=dcp.FileSystemReader(path), planner=LoadBoxes())
    for zero in way.updates.zeros:
        show_weights(zero)
    return run["step"], run["progress"]


def tensors(way: HybridParallel) -> Iterator[tuple[str, Held]]:
    """This rank's weights and optimizer states, by the names that they have in the checkpoint."""
    for leaf in way.updates.leaves:
        states = {key: value for key, value in _state(leaf).items() if _like(value, leaf)}
        for key, like in {"": leaf.numbers.data, **states}.items():
            for p, start, numbers in leaf.stretches(like):
                place = way.stage.places[p]
                name = f"optimizer.{place.name}.{key}" if key else f"model.{place.name}"
                yield name, place.held(p, start, numbers)


def names(way: HybridParallel, leaf: Leaf) -> list[str]:
    """Of the parameters that a leaf is, or has parts of, in the whole model."""
    return [way.stage.places[p].name for p, *_ in leaf.stretches(leaf.numbers.data)]


def _state(leaf: Leaf) -> dict[str, Any]:
    return leaf.optimizer.state.get(leaf.numbers, {})


def _like(value: object, leaf: Leaf) -> bool:
    return isinstance(value, Tensor) and value.shape == leaf.numbers.shape


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}


def _check(way: HybridParallel, run: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Refuse by name, on all ranks, what the checkpoint has otherwise for one of them."""
    found = [one for one in told_by_all(_misfit(way, run, saved), None) if one]
    if found:
        raise InputError(f"checkpoint: {found[0]}")


def _misfit(way: HybridParallel, run: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
    for name, held in tensors(way):
        if name.startswith("model."):
            if name not in saved:
                return f"{name[6:]} only in the model"
            if (shape := tuple(saved[name].size)) != held.shape:
                return f"{name[6:]} has shape {shape}, expected {held.shape}"
    if (kind := type(way.updates.leaves[0].optimizer).__name__) != run["optimizer"]:
        return f"states of {run['optimizer']}, expected those of {kind}"
    return ""


def _make_states(
    way: HybridParallel, leaf: Leaf, others: Mapping[str, Any], saved: Mapping[str, Any]
) -> None:
    """Optimizer states of the right sizes, to be read into."""
    first = names(way, leaf)[0]
    if first not in others:  # saved before the first step
        return
    start = f"optimizer.{first}."
    kinds = {k[len(start) :]: t.properties.dtype for k, t in saved.items() if k.startswith(start)}
    state = {key: torch.zeros_like(leaf.numbers, dtype=dtype) for key, dtype in kinds.items()}
    for key, value in others[first].items():
        state[key] = value.clone() if isinstance(value, Tensor) else value
    leaf.optimizer.state[leaf.numbers] = state
