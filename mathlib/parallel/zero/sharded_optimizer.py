"""The optimizer of sharded training: its parameter groups, and whether it may see a shard.

A rank's optimizer holds shards of flat buffers. That is right only if it treats every element by
itself. One that looks at a whole tensor, as LAMB does at its norm, is found by a trial and refused.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from mathlib.checks import InputError
from mathlib.parallel.ddp import trainable

Groups = list[dict[str, Any]]
MakeOptimizer = Callable[[Groups], torch.optim.Optimizer]
ROWS, COLUMNS, TRIAL_STEPS = 4, 6, 5  # of the matrix of a trial
TRIAL_RATE = 0.01  # the learning rate there, as a schedule may begin at zero


def grouped(module: nn.Module, groups: Iterable | None) -> Groups:
    """Parameter groups in any form that torch's optimizers take; without any, all trainable
    parameters.
    """
    if groups is None:
        return [{"params": list(trainable(module).values())}]
    given = list(groups)
    if not all(isinstance(group, dict) for group in given):
        given = [{"params": given}]
    given = [{**group, "params": _parameters(group["params"])} for group in given]
    named = dict(module.named_parameters())
    listed = [p for group in given for p in group["params"]]
    if len(set(listed)) < len(listed):
        raise InputError("groups: a parameter stands in two groups, expected it in one")
    if strange := len(set(listed) - set(named.values())):
        raise InputError(f"groups: {strange} parameters are not the module's")
    if left := [name for name, p in trainable(module).items() if p not in set(listed)]:
        raise InputError(f"groups: {', '.join(left)} in no group, expected every trainable one")
    return [{**g, "params": [p for p in g["params"] if p.requires_grad]} for g in given]


def _parameters(params: nn.Parameter | Iterable) -> list[nn.Parameter]:
    """What stands in a group: one tensor, or tensors, or pairs of a name and a tensor."""
    several: Iterable = [params] if isinstance(params, Tensor) else params
    return [p[1] if isinstance(p, tuple) else p for p in several]


def optimizer_over(
    make: MakeOptimizer, groups: Groups, shards: Iterable[tuple[int, nn.Parameter]]
) -> torch.optim.Optimizer:
    """The optimizer, with each group's shards (number of the group, shard) for its parameters."""
    mine: list[list[nn.Parameter]] = [[] for _ in groups]
    for number, shard in shards:
        mine[number].append(shard)
    for group, own in zip(groups, mine, strict=True):
        if own:
            _refuse_whole_tensors(make, group, own[0])
    return make([{**g, "params": own} for g, own in zip(groups, mine, strict=True)])


def _refuse_whole_tensors(make: MakeOptimizer, group: dict[str, Any], shard: nn.Parameter) -> None:
    """Let the optimizer update a small matrix, and each half of it laid flat: they must agree."""
    dtype = torch.promote_types(shard.dtype, torch.float32)
    start = torch.arange(1, ROWS * COLUMNS + 1, dtype=dtype, device=shard.device) / 100

    def over(numbers: Tensor) -> torch.optim.Optimizer:
        return make([{**group, "params": [nn.Parameter(numbers.clone())]}])

    first = over(start.view(ROWS, COLUMNS))
    try:
        whole = _moved(first, start)
        halves = torch.cat([_moved(over(half), half) for half in start.chunk(2)])
        alike = (whole - halves).abs().max() <= 1e-3 * whole.abs().max()
        why = "" if alike else "looks at whole tensors"
    except Exception as error:  # each optimizer has its own words for what it cannot take
        why = f"cannot update a shard of a flat buffer ({error})"
    if why:
        raise InputError(
            f"optimizer = {type(first).__name__}: {why}, and a rank holds only a shard; "
            "expected one that treats every element by itself, such as SGD, Adam or AdamW"
        )


def _moved(optimizer: torch.optim.Optimizer, start: Tensor) -> Tensor:
    """How far some steps move the optimizer's only parameter from where it starts."""
    (options,) = optimizer.param_groups
    (p,) = options["params"]
    rate = options.get("lr")
    options["lr"] = torch.full_like(rate, TRIAL_RATE) if isinstance(rate, Tensor) else TRIAL_RATE
    for step in range(TRIAL_STEPS):
        p.grad = (start * 70 + step).sin().mul(start).view_as(p)
        optimizer.step()
    return p.detach().flatten() - start
