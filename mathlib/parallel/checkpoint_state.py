"""What of a sharded training goes into a checkpoint, by names that do not know of ranks, and back.

`model.<name>` a parameter or buffer, in fp32 where there are master weights; `optimizer.<name>.
<state>` what the optimizer keeps of its size, such as Adam's moments; `run` all else: the step,
options of parameter groups, counters, every rank's random generators and progress.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mathlib.checks import InputError
from mathlib.parallel.alike import told_by_all
from mathlib.parallel.boxes import Held, stretch, whole
from mathlib.parallel.zero.flat_shards import FlatShard
from mathlib.parallel.zero.stage1 import Zero1


def _pieces(row: FlatShard, flat: Tensor) -> Iterator[tuple[str, Held]]:
    """What this rank has of each parameter of a row: of its weights, or of a state like them."""
    for p, start, numbers in row.stretches(flat):
        yield row.names[p], stretch(p, start, numbers)


def tensors(zero: Zero1) -> Iterator[tuple[str, Held]]:
    """Weights, buffers and the optimizer's tensors, by the names they have in the checkpoint."""
    rows = zero.every_row()
    in_rows = {name for row in rows for name in row.names.values()}
    for row in rows:
        for name, held in _pieces(row, row.shard.data):
            yield f"model.{name}", held
        for key, value in zero.optimizer.state.get(row.shard, {}).items():
            if _like_the_shard(value, row):
                for name, held in _pieces(row, value):
                    yield f"optimizer.{name}.{key}", held
    for p, name in zero.names.items():
        if name not in in_rows:  # frozen, and whole on every rank
            yield f"model.{name}", whole(p)
    for name, buffer in _buffers(zero.module):
        yield f"model.{name}", whole(buffer)


def _buffers(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Those of a state_dict: not what a module says it can make again."""
    return [
        (f"{prefix}.{name}".lstrip("."), buffer)
        for prefix, part in module.named_modules()
        for name, buffer in part.named_buffers(recurse=False)
        if name not in part._non_persistent_buffers_set
    ]


def _like_the_shard(value: object, row: FlatShard) -> bool:
    return isinstance(value, Tensor) and value.shape == row.shard.shape


def state_of(zero: Zero1, step: int, progress: Any) -> dict[str, Any]:
    half = [s for s in zero.shards if s.shard.grad is not None]
    half += [s for s in zero.shards if any(p.grad is not None for p in s.names)]
    if half:
        raise InputError(
            f"step = {step}: gradients have come that no step has used, expected a save right "
            "after a step"
        )
    others = {
        name: {k: v for k, v in state.items() if not _like_the_shard(v, row)}
        for row in zero.shards
        if (state := zero.optimizer.state.get(row.shard))
        for name in row.names.values()
    }
    mine = {"torch": torch.get_rng_state(), "python": random.getstate(), "progress": progress}
    run = {
        "step": step,
        "ranks": told_by_all(mine, zero.everyone),
        "optimizer": type(zero.optimizer).__name__,
        "groups": _groups(zero),
        "others": others,
        "tied": _tied(zero),
    }
    return {"run": run, **dict(tensors(zero))}


def _groups(zero: Zero1) -> list[dict[str, Any]]:
    """The optimizer's options of each parameter group, and the names of its parameters."""
    return [
        {key: value for key, value in group.items() if key != "params"}
        | {"names": sorted(zero.names[p] for p in given["params"])}
        for group, given in zip(zero.optimizer.param_groups, zero.groups, strict=True)
    ]


def _tied(zero: Zero1) -> dict[str, str]:
    """Further names of parameters that have several: the name that they are saved under."""
    every = zero.module.named_parameters(remove_duplicate=False)
    return {name: zero.names[p] for name, p in every if name != zero.names[p]}


def check_fit(zero: Zero1, run: dict[str, Any], saved: Mapping[str, Any]) -> None:
    """Refuse by name what the checkpoint has otherwise."""
    mine = {name[6:]: held for name, held in tensors(zero) if name.startswith("model.")}
    theirs = {name[6:]: tensor for name, tensor in saved.items() if name.startswith("model.")}
    for where, names in (("module", mine.keys() - theirs), ("checkpoint", theirs.keys() - mine)):
        if names:
            raise InputError(f"checkpoint: {', '.join(sorted(names))} only in the {where}")
    in_order = [name for name in zero.names.values() if name in mine]
    for name, held in ((name, mine[name]) for name in [*in_order, *mine]):
        if held.shape != (shape := tuple(theirs[name].size)):
            raise InputError(f"checkpoint: {name} has shape {shape}, expected {held.shape}")
    for row in zero.shards:
        for name in row.names.values():
            if (dtype := theirs[name].properties.dtype) != row.shard.dtype:
                raise InputError(f"checkpoint: {name} is {dtype}, expected {row.shard.dtype}")
    if (kind := type(zero.optimizer).__name__) != run["optimizer"]:
        raise InputError(f"checkpoint: states of {run['optimizer']}, expected those of {kind}")
    if [g["names"] for g in run["groups"]] != [g["names"] for g in _groups(zero)]:
        raise InputError("checkpoint: its parameter groups are others than the optimizer's")


def make_states(zero: Zero1, run: dict[str, Any], saved: Mapping[str, Any]) -> None:
    """Optimizer states of the right sizes, to be read into."""
    zero.optimizer.state.clear()
    for row in zero.shards:
        names = list(row.names.values())
        others = run["others"].get(names[0])
        if others is None:  # saved before the first step
            continue
        start = f"optimizer.{names[0]}."
        kinds = {
            k[len(start) :]: t.properties.dtype for k, t in saved.items() if k.startswith(start)
        }
        state = {k: torch.zeros_like(row.shard, dtype=dtype) for k, dtype in kinds.items()}
        for key, value in others.items():
            state[key] = value.clone() if isinstance(value, Tensor) else value
        zero.optimizer.state[row.shard] = state
