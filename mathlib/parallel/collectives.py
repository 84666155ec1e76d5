"""The collectives written out, message by message, so that every byte of the formulas can be seen
leaving a rank.

N    ranks of the group, numbered 0..N-1         r    this rank
K    bytes of the tensor                          p    ranks of the largest power of two <= N
All work in place on a contiguous tensor of any length (shorter than N too) and add; group None is
the default group.
The messages of a rank must not wait for one another: gloo's do not, NCCL's do.
A tensor is cut into N pieces that differ by at most one element; an empty piece costs no message.
What "a rank sends" is the mean over the ranks; when N divides the tensor it is what each one sends.
"""

from collections.abc import Sequence
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError
from mathlib.traffic.comm import ring_steps

DONE = SimpleNamespace(wait=lambda: None)  # stands for a message that need not be sent
Step = tuple[Tensor, int, Tensor, int]  # give this to that rank, take this from that one


def rank_and_size(group: ProcessGroup | None = None) -> tuple[int, int]:
    """(rank, size) of this process in the group."""
    if (backend := dist.get_backend(group)) == "nccl":
        raise InputError(
            f"group over {backend}: expected one over gloo, as NCCL's messages wait for one another"
        )
    return dist.get_rank(group), dist.get_world_size(group)


def flat(tensor: Tensor) -> Tensor:
    """The tensor's elements in a row, in the same memory."""
    if not tensor.is_contiguous():
        raise InputError(
            f"tensor of shape {tuple(tensor.shape)}: expected a contiguous one, to work in its "
            "memory"
        )
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
    """Sum in 2(N-1) steps round a ring; a rank sends 2 K (N-1)/N (Patarasuk and Yuan 2009).

    One step at a time: a message waits until its receiver has got as far.
    """
    r, n = rank_and_size(group)
    right, left = (r + 1) % n, (r - 1) % n
    scatter, gather = ring_steps(pieces(tensor, n), r)
    for give, take in scatter:  # what comes in is added, and goes on in the next step
        arrived = torch.empty_like(take)
        finish(send(give, right, group), receive(arrived, left, group))
        take += arrived
    for give, take in gather:  # what comes in is final, and goes on in the next step
        finish(send(give, right, group), receive(take, left, group))


def _receive_first(
    scatter: Sequence[Step], gather: Sequence[Step], group: ProcessGroup | None
) -> None:
    """The steps with every receive posted before the first send, so that no message waits for its
    receiver.

    What is taken in the scatter is added. The gather may be expected that early because a piece
    comes back only after others have added to what this rank sent of it.
    """
    arriving = [torch.empty_like(take) for _, _, take, _ in scatter]
    sums = [
        receive(arrived, source, group)
        for arrived, (*_, source) in zip(arriving, scatter, strict=True)
    ]
    finals = [receive(take, source, group) for _, _, take, source in gather]
    sent = []
    for (give, to, take, _), arrived, message in zip(scatter, arriving, sums, strict=True):
        sent.append(send(give, to, group))
        message.wait()
        take += arrived
    for (give, to, *_), message in zip(gather, finals, strict=True):
        sent.append(send(give, to, group))
        message.wait()
    finish(*sent)


def _round_the_ring(piece: Sequence[Tensor], r: int) -> tuple[list[Step], list[Step]]:
    right, left = (r + 1) % len(piece), (r - 1) % len(piece)
    scatter, gather = ring_steps(piece, r)
    return [(give, right, take, left) for give, take in scatter], [
        (give, right, take, left) for give, take in gather
    ]


def ring_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Sum in 2(N-1) steps round a ring, receives posted ahead; a rank sends 2 K (N-1)/N (Patarasuk
    and Yuan 2009).
    """
    r, n = rank_and_size(group)
    _receive_first(*_round_the_ring(pieces(tensor, n), r), group)


def ring_reduce_scatter(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Leave piece r of the sum in place, and return it; the rest holds partial sums. A rank sends K
    (N-1)/N.
    """
    r, n = rank_and_size(group)
    scatter, _ = _round_the_ring(piece := pieces(tensor, n), r)
    _receive_first(scatter, [], group)
    return piece[r]


def ring_all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Rank r brings piece r of the tensor and gets the others. A rank sends K (N-1)/N."""
    r, n = rank_and_size(group)
    _, gather = _round_the_ring(pieces(tensor, n), r)
    _receive_first([], gather, group)


def tree_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Sum up a binomial tree to rank 0 and broadcast down it: 2 ceil(log2 N) rounds of K, rank 0
    sends K ceil(log2 N).

    In round i of the way up the ranks whose lowest set bit is bit i send to the rank without that
    bit.
    """
    r, n = rank_and_size(group)
    whole = flat(tensor)
    arrived = torch.empty_like(whole)
    lowest = r & -r or 1 << (n - 1).bit_length()  # rank 0 is nobody's child
    children = [r + (1 << i) for i in range(lowest.bit_length() - 1) if r + (1 << i) < n]
    for child in children:
        receive(arrived, child, group).wait()
        whole += arrived
    if r:
        send(whole, r - lowest, group).wait()
        receive(whole, r - lowest, group).wait()
    finish(*(send(whole, child, group) for child in reversed(children)))


def halving_doubling_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Halve and sum with ever nearer partners, then double back: 2 log2 p rounds, 2 K (p-1)/p
    (Rabenseifner 2004).

    Where N is no power of two, the last N - p ranks first give their tensor to a partner, who
    returns the result.
    """
    r, n = rank_and_size(group)
    p = 1 << (n.bit_length() - 1)
    whole = flat(tensor)
    if r >= p:
        send(whole, r - p, group).wait()
        receive(whole, r - p, group).wait()
        return
    if r + p < n:
        arrived = torch.empty_like(whole)
        receive(arrived, r + p, group).wait()
        whole += arrived
    scatter, part, distance = list[Step](), whole, p // 2
    while distance:  # partners differ in one bit, the highest first
        low, high = part.tensor_split(2)
        part, theirs = (high, low) if r & distance else (low, high)
        scatter.append((theirs, r ^ distance, part, r ^ distance))
        distance //= 2
    gather = [(mine, partner, theirs, partner) for theirs, partner, mine, _ in reversed(scatter)]
    _receive_first(scatter, gather, group)
    if r + p < n:
        send(whole, r + p, group).wait()


def star_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Everyone sends to rank 0, which sends the sum back: rank 0 moves (N-1) K each way, one after
    the other.
    """
    r, n = rank_and_size(group)
    whole = flat(tensor)
    if r:
        send(whole, 0, group).wait()
        receive(whole, 0, group).wait()
        return
    arrived = torch.empty_like(whole)
    for other in range(1, n):
        receive(arrived, other, group).wait()
        whole += arrived
    for other in range(1, n):
        send(whole, other, group).wait()


def hierarchical_all_reduce(tensor: Tensor, groups: Sequence[ProcessGroup]) -> None:
    """Reduce-scatter inside, all-reduce of K/g across, all-gather inside; groups innermost first,
    any number.
    """
    inside, *across = groups
    if not across:
        return ring_all_reduce(tensor, inside)
    piece = ring_reduce_scatter(tensor, inside)
    hierarchical_all_reduce(piece, across)
    ring_all_gather(tensor, inside)


def process_group_of(groups: Sequence[Sequence[int]]) -> ProcessGroup:
    """Turn groups of a mesh into process groups, on every rank alike, and return the one this rank
    is in.
    """
    group, _ = dist.new_subgroups_by_enumeration([list(ranks) for ranks in groups])
    if group is None:
        raise InputError(f"groups = {groups}: expected rank {dist.get_rank()} in one of them")
    return group


def all_to_all(
    received: Sequence[Tensor], sent: Sequence[Tensor], group: ProcessGroup | None = None
) -> None:
    """Rank r's sent[i] becomes rank i's received[r]; sizes are free. With equal ones a rank sends K
    (N-1)/N.
    """
    r, n = rank_and_size(group)
    if not len(received) == len(sent) == n:
        raise InputError(
            f"received, sent = {len(received)}, {len(sent)} tensors: expected {n} each, one a rank"
        )
    if (kept := sent[r].numel()) != (room := received[r].numel()):
        raise InputError(
            f"received[{r}] has {room} elements: expected {kept}, as rank {r} keeps its own "
            f"sent[{r}]"
        )
    flat(received[r]).copy_(flat(sent[r]))
    others = [(r + step) % n for step in range(1, n)]
    expected = [receive(flat(received[other]), other, group) for other in reversed(others)]
    finish(*expected, *(send(flat(sent[other]), other, group) for other in others))


def direct_reduce_scatter(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Piece r of the sum by all-to-all and one sum on the spot: a rank sends K (N-1)/N, and waits
    one message's time.

    gloo's own reduce_scatter is an all-reduce inside, and sends twice that.
    """
    r, n = rank_and_size(group)
    sent = pieces(tensor, n)
    received = sent[r].new_empty(n, sent[r].numel())
    all_to_all(list(received), sent, group)
    return received.sum(0, dtype=tensor.dtype)
