"""One message: what the collectives are written with.

The messages of a rank must not wait for one another: gloo's do not, NCCL's do. A message of one
type is not taken for another's, and gloo ends a rank that gets more bytes than it has room for.
"""

from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError

Message = dist.Work | SimpleNamespace
DONE = SimpleNamespace(wait=lambda: None)  # stands for a message that need not be sent
TYPES = sorted({t for t in vars(torch).values() if isinstance(t, torch.dtype)}, key=str)
TAG = {dtype: number for number, dtype in enumerate(TYPES)}  # gloo keeps tags apart


def rank_and_size(group: ProcessGroup | None = None) -> tuple[int, int]:
    """(rank, size) of this process in the group."""
    if (backend := dist.get_backend(group)) == "nccl":
        raise InputError(
            f"group over {backend}: expected one over gloo, as NCCL's messages wait for one another"
        )
    return dist.get_rank(group), dist.get_world_size(group)


def flat(tensor: Tensor) -> Tensor:
    """The tensor's elements in a row, in the same memory."""
    if tensor.is_conj() or tensor.is_neg():
        raise InputError(
            "tensor is the conjugate or negative of what lies in its memory: expected one that is "
            "written out, by resolve_conj() or resolve_neg()"
        )
    if not tensor.is_contiguous():
        raise InputError(
            f"tensor of shape {tuple(tensor.shape)}: expected a contiguous one, to work in its "
            "memory"
        )
    return tensor.detach().view(-1)


def chunks(tensor: Tensor, size: int) -> list[Tensor]:
    """The tensor's elements in `size` views whose lengths differ by at most one."""
    return list(flat(tensor).tensor_split(size))


def send(chunk: Tensor, to: int, group: ProcessGroup | None) -> Message:
    """Begin to send to rank `to` of the group."""
    if not chunk.numel():
        return DONE
    return dist.isend(chunk, group=group, tag=TAG[chunk.dtype], group_dst=to) or DONE


def receive(chunk: Tensor, source: int, group: ProcessGroup | None) -> Message:
    """Begin to receive from rank `source` of the group."""
    if not chunk.numel():
        return DONE
    return dist.irecv(chunk, group=group, tag=TAG[chunk.dtype], group_src=source) or DONE


def finish(*messages: Message) -> None:
    """Wait until these messages are through."""
    for message in messages:
        message.wait()
