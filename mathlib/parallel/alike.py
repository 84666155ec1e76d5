"""Whether all ranks bring the same: lengths and types of a message, the tensors of a model.

With TORCH_DISTRIBUTED_DEBUG=DETAIL the ranks are asked before every collective, and it is said who
differs. That costs a round of messages each time, so it is not the rule; without it gloo ends the
rank that gets more than it has room for. In that mode torch compares how often each rank has
communicated as well, and takes offence where ranks sent unequal numbers of messages, as they do
for a tensor shorter than the group.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError


def careful() -> bool:
    """Whether the user has set TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    return dist.get_debug_level() == dist.DebugLevel.DETAIL


def agree(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Ask all ranks of the group for the length and type of their tensors; refuse if they
    differ.
    """
    found = told_by_all(f"{tensor.numel()} of {tensor.dtype}", group)
    if len(set(found)) > 1:
        told = ", ".join(f"rank {rank} {what}" for rank, what in enumerate(found))
        raise InputError(f"tensor differs between ranks: {told}; expected one length and type")


def told_by_all(what: object, group: ProcessGroup | None) -> list:
    """What each rank of the group has to say, in the order of ranks."""
    found: list = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, what, group=group)
    return found


def rooms_fit(
    received: Sequence[Tensor], sent: Sequence[Tensor], group: ProcessGroup | None
) -> None:
    """Ask all ranks for their sizes and types; refuse where a rank has other room than comes."""
    sizes = [[f"{t.numel()} of {t.dtype}" for t in tensors] for tensors in (received, sent)]
    rooms, gifts = zip(*told_by_all(sizes, group), strict=True)
    for source, gift in enumerate(gifts):
        for to, what in enumerate(gift):
            if (room := rooms[to][source]) != what:
                raise InputError(
                    f"received[{source}] on rank {to} has room for {room}: rank {source} sends "
                    f"{what}"
                )


def inventory(named: Iterable[tuple[str, Tensor]], strides: bool = True) -> list[str]:
    """What a wrapper relies on, a line for each tensor: all ranks must have it alike, and keep
    it so.
    """
    lines = []
    for name, t in named:
        trained = f"strides {t.stride()}" if strides else "trained"
        kept = trained if t.requires_grad else "no gradient"
        lines.append(f"{name}: {tuple(t.shape)}, {t.dtype} on {t.device.type}, {kept}")
    return lines


def check_unchanged(wrapped: list[str], now: list[str]) -> None:
    """Refuse a module whose inventory is no longer that of when it was wrapped."""
    if apart := first_difference(wrapped, now):
        raise RuntimeError(
            f"the module is not what was wrapped. Then {apart[0]}; now {apart[1]}. Freeze, "
            "convert and move it first, then wrap it."
        )


def first_difference(here: list[str], there: list[str]) -> tuple[str, str] | None:
    """The first lines that differ, or None."""
    pairs = zip_longest(here, there, fillvalue="nothing more")
    return next((pair for pair in pairs if pair[0] != pair[1]), None)
