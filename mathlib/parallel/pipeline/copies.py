"""Parameters that more than one rank of a pipeline holds: of data parallel replicas, of chunks that
run in both directions, of an embedding tied between the first stage and the last.

All are treated alike: their copies begin with the same numbers, and before an update the gradients
of all copies are added up, in one all-reduce for each set of ranks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.checks import InputError
from mathlib.parallel.alike import told_by_all
from mathlib.parallel.ddp import broadcast

Key = tuple[Any, str]  # chunk, name inside it; chunk -1 for a name that chunks share


def keys(chunks: Mapping[int, nn.Module]) -> dict[Key, nn.Parameter]:
    """What each parameter of these chunks is a copy of; frozen ones as well."""
    found: dict[Key, nn.Parameter] = {}
    for c, chunk in chunks.items():
        ties = getattr(chunk, "ties", {})
        for name, p in chunk.named_parameters():
            key = (-1, ties[name]) if name in ties else (c, name)
            if found.setdefault(key, p) is not p:
                raise InputError(
                    f"chunks: two of this rank hold {key[1]}, tied, as different parameters: "
                    "expected one that they share"
                )
    return found


class Copies:
    """Who holds a copy of what; to be made on all ranks at once.

    mine: parameters by what they are copies of, such as `keys(chunks)`.
    """

    def __init__(
        self,
        mine: Mapping[Key, nn.Parameter],
        new_group: Callable[[list[int]], ProcessGroup | None] = dist.new_group,
    ):
        told = told_by_all({key: f"{tuple(p.shape)}, {p.dtype}" for key, p in mine.items()}, None)
        self.sets: list[tuple[ProcessGroup | None, list[nn.Parameter]]] = []
        self.holders = holders(told)
        for ranks in sorted(set(self.holders.values())):
            if len(ranks) > 1:
                group = new_group(list(ranks))  # every rank must call this
                held = [p for key, p in mine.items() if self.holders[key] == ranks]
                if held:
                    self.sets.append((group, held))
        for group, held in self.sets:
            broadcast(held, group)

    def within(self, row: Iterable[int]) -> list[str]:
        """Names of parameters that two ranks of one replica hold."""
        row = set(row)
        return sorted(
            name for (_, name), ranks in self.holders.items() if len(row.intersection(ranks)) > 1
        )

    @torch.no_grad()
    def add_up(self) -> None:
        """Replace the gradient of every copy by the sum over all; one that is missing counts as
        zero.
        """
        for group, held in self.sets:
            held = [p for p in held if p.requires_grad]
            for p in held:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            for kind in dict.fromkeys(p.dtype for p in held):
                alike: list[Tensor] = [
                    p.grad for p in held if p.dtype == kind and p.grad is not None
                ]
                flat = torch.cat([gradient.flatten() for gradient in alike])
                dist.all_reduce(flat, group=group)
                sizes = [gradient.numel() for gradient in alike]
                for gradient, part in zip(alike, flat.split(sizes), strict=True):
                    gradient.copy_(part.view_as(gradient))


def holders(told: Sequence[Mapping[Key, str]]) -> dict[Key, tuple[int, ...]]:
    """The ranks that hold each parameter; refused where its copies differ."""
    found: dict[Key, tuple[int, ...]] = {}
    for key in sorted({key for mine in told for key in mine}):
        ranks = tuple(rank for rank, mine in enumerate(told) if key in mine)
        kinds = {told[rank][key] for rank in ranks}
        if len(kinds) > 1:
            raise InputError(f"chunks: the copies of {key[1]} differ: {', '.join(sorted(kinds))}")
        found[key] = ranks
    return found
