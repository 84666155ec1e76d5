"""The collectives written out, message by message, so that every byte of the formulas can be seen leaving a rank.

N    ranks of the group, numbered 0..N-1         r    this rank
K    bytes of the tensor                          p    ranks of the largest power of two <= N
All work in place on a contiguous tensor of any length (shorter than N too) and add; group None is the default group.
A tensor is cut into N pieces that differ by at most one element; an empty piece costs no message.
"sends" counts the bytes of one rank, averaged over the ranks when N does not divide the tensor.
"""

from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError

DONE = SimpleNamespace(wait=lambda: None)  # stands for a message that need not be sent


def place(group: ProcessGroup | None = None) -> tuple[int, int]:
    """(rank, size) of this process in the group."""
    return dist.get_rank(group), dist.get_world_size(group)


def flat(tensor: Tensor) -> Tensor:
    """The tensor's elements in a row, in the same memory."""
    if not tensor.is_contiguous():
        raise InputError(f"tensor of shape {tuple(tensor.shape)}: expected a contiguous one, to work in its memory")
    return tensor.detach().view(-1)


def pieces(tensor: Tensor, size: int) -> list[Tensor]:
    """The tensor's elements in `size` views whose lengths differ by at most one."""
    return list(flat(tensor).tensor_split(size))


def send(piece: Tensor, to: int, group: ProcessGroup | None):
    """Begin to send to rank `to` of the group."""
    return dist.isend(piece, group=group, group_dst=to) if piece.numel() else DONE


def receive(piece: Tensor, source: int, group: ProcessGroup | None):
    """Begin to receive from rank `source` of the group."""
    return dist.irecv(piece, group=group, group_src=source) if piece.numel() else DONE


def finish(*messages) -> None:
    """Wait until these messages are through."""
    for message in messages:
        message.wait()


def naive_ring_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Sum over the ranks in 2(N-1) steps to the right neighbour: sends 2 K (N-1)/N (Patarasuk and Yuan 2009).

    One message at a time: at every step a rank waits until its neighbour has got round to receiving.
    """
    r, n = place(group)
    piece, right, left = pieces(tensor, n), (r + 1) % n, (r - 1) % n
    for step in range(n - 1):  # reduce-scatter: what comes in is added, and goes on in the next step
        give, take = piece[(r - step - 1) % n], piece[(r - step - 2) % n]
        arrived = torch.empty_like(take)
        finish(send(give, right, group), receive(arrived, left, group))
        take += arrived
    for step in range(n - 1):  # all-gather: what comes in is final, and goes on in the next step
        give, take = piece[(r - step) % n], piece[(r - step - 1) % n]
        finish(send(give, right, group), receive(take, left, group))


def ring_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """The same ring with every receive posted before the first send, so that no message waits for its receiver.

    Posting the all-gather's receives that early is safe: a piece comes back only after all others have added to what this
    rank sent of it.
    """
    gathering = _expect_gather(tensor, group, before=(scattering := _expect_scatter(tensor, group)))
    _scatter(tensor, group, scattering)
    _gather(tensor, group, gathering)


def ring_reduce_scatter(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Piece r of the sum, in place of piece r; the other pieces hold partial sums. Sends K (N-1)/N in N-1 messages."""
    _scatter(tensor, group, _expect_scatter(tensor, group))
    r, n = place(group)
    return pieces(tensor, n)[r]


def ring_all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Every rank brings piece r of the tensor and gets the others. Sends K (N-1)/N in N-1 messages."""
    _gather(tensor, group, _expect_gather(tensor, group))
