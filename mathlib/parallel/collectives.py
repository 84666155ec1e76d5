"""The collectives written out, message by message, so that every byte of the formulas can be seen
leaving a rank.

N    ranks of the group, numbered 0..N-1         r    this rank
K    bytes of the tensor                          p    ranks of the largest power of two <= N
All work in place on a contiguous tensor of any length (shorter than N too) and add; group None is
the default group. All ranks bring the same length and type: see alike.py for what is said if not.
A tensor is cut into N chunks that differ by at most one element; an empty chunk costs no message.
What "a rank sends" is the mean over the ranks; when N divides the tensor it is what each one sends.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.checks import InputError
from mathlib.parallel.alike import agree, careful, rooms_fit
from mathlib.parallel.messages import chunks, finish, flat, rank_and_size, receive, send
from mathlib.traffic.comm import ring_steps

Exchange = tuple[Tensor, int, Tensor, int]  # give this to that rank, take this from that one


def begin(tensor: Tensor, group: ProcessGroup | None) -> tuple[int, int]:
    """(rank, size) of this process in the group; all ranks are asked first if the user wishes."""
    if careful():
        agree(tensor, group)
    return rank_and_size(group)


def _receive_first(
    scatter: Sequence[Exchange], gather: Sequence[Exchange], group: ProcessGroup | None
) -> None:
    """The steps with every receive posted before the first send, so that no message waits for its
    receiver.

    What is taken in the scatter is added. The gather may be expected that early because a chunk
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


def _round_the_ring(chunk: Sequence[Tensor], r: int) -> tuple[list[Exchange], list[Exchange]]:
    right, left = (r + 1) % len(chunk), (r - 1) % len(chunk)
    scatter, gather = ring_steps(chunk, r)
    return [(give, right, take, left) for give, take in scatter], [
        (give, right, take, left) for give, take in gather
    ]


def ring_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Sum in 2(N-1) steps round a ring, receives posted ahead; a rank sends 2 K (N-1)/N (Patarasuk
    and Yuan 2009).
    """
    r, n = begin(tensor, group)
    _receive_first(*_round_the_ring(chunks(tensor, n), r), group)


def ring_reduce_scatter(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Leave chunk r of the sum in place, and return it; the rest holds partial sums. A rank sends K
    (N-1)/N.
    """
    r, n = begin(tensor, group)
    scatter, _ = _round_the_ring(chunk := chunks(tensor, n), r)
    _receive_first(scatter, [], group)
    return chunk[r]


def ring_all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Rank r brings chunk r of the tensor and gets the others. A rank sends K (N-1)/N."""
    r, n = begin(tensor, group)
    _, gather = _round_the_ring(chunks(tensor, n), r)
    _receive_first([], gather, group)


def tree_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Sum up a binomial tree to rank 0 and broadcast down it: 2 ceil(log2 N) rounds of K, rank 0
    sends K ceil(log2 N).

    On the way up every second rank sends to the one before it, then every second of those that are
    left, two ranks away, then four.
    """
    r, n = begin(tensor, group)
    whole = flat(tensor)
    arrived = torch.empty_like(whole)
    children, distance = [], 1
    while r % (2 * distance) == 0 and distance < n:  # else it is this rank's turn to send
        if r + distance < n:
            children.append(r + distance)
        distance *= 2
    for child in children:
        receive(arrived, child, group).wait()
        whole += arrived
    if r:
        send(whole, r - distance, group).wait()
        receive(whole, r - distance, group).wait()
    finish(*(send(whole, child, group) for child in reversed(children)))


def halving_doubling_all_reduce(tensor: Tensor, group: ProcessGroup | None = None) -> None:
    """Swap a half and add, then a quarter, and so on; then double back: 2 log2 p rounds, a rank
    sends 2 K (p-1)/p (Rabenseifner 2004).

    The largest messages go to the nearest rank, as in its source, in MPICH and in gloo. Where N is
    no power of two, each even rank below 2 (N - p) first gives its tensor to the odd rank beside
    it, who returns the result (Thakur, Rabenseifner and Gropp 2005, as MPICH does it).
    """
    r, n = begin(tensor, group)
    whole = flat(tensor)
    p = 1 << (n.bit_length() - 1)
    paired = 2 * (n - p)
    if r < paired and r % 2 == 0:
        send(whole, r + 1, group).wait()
        receive(whole, r + 1, group).wait()
        return
    if r < paired:
        arrived = torch.empty_like(whole)
        receive(arrived, r - 1, group).wait()
        whole += arrived
    going_on = [*range(1, paired, 2), *range(paired, n)]
    steps = _halve_and_double(whole, r, going_on)
    _receive_first(*steps, group)
    if r < paired:
        send(whole, r - 1, group).wait()


def _halve_and_double(
    whole: Tensor, r: int, ranks: Sequence[int]
) -> tuple[list[Exchange], list[Exchange]]:
    """Steps among these ranks, whose number is a power of two: down to one chunk, and back."""
    scatter: list[Exchange] = []
    part, here = whole, ranks.index(r)
    for bit in range(len(ranks).bit_length() - 1):  # partners differ in it; who has it keeps high
        distance = 1 << bit
        low, high = part.tensor_split(2)
        part, theirs = (high, low) if here & distance else (low, high)
        partner = ranks[here ^ distance]
        scatter.append((theirs, partner, part, partner))
    return scatter, [(mine, partner, theirs, partner) for theirs, partner, mine, _ in scatter[::-1]]


def hierarchical_all_reduce(tensor: Tensor, groups: Sequence[ProcessGroup]) -> None:
    """Reduce-scatter inside, all-reduce of K/g across, all-gather inside; groups innermost first,
    any number.
    """
    inside, *across = groups
    if not across:
        return ring_all_reduce(tensor, inside)
    chunk = ring_reduce_scatter(tensor, inside)
    hierarchical_all_reduce(chunk, across)
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
    if len(types := {tensor.dtype for tensor in (*received, *sent)}) > 1:
        told = ", ".join(sorted(map(str, types)))
        raise InputError(f"received, sent of types {told}: expected one type of number")
    if not len(received) == len(sent) == n:
        raise InputError(
            f"received, sent = {len(received)}, {len(sent)} tensors: expected {n} each, one a rank"
        )
    if (kept := sent[r].numel()) != (room := received[r].numel()):
        raise InputError(
            f"received[{r}] has {room} elements: expected {kept}, as rank {r} keeps its own "
            f"sent[{r}]"
        )
    if careful():
        rooms_fit(received, sent, group)
    flat(received[r]).copy_(flat(sent[r]))
    others = [(r + step) % n for step in range(1, n)]
    expected = [receive(flat(received[other]), other, group) for other in reversed(others)]
    finish(*expected, *(send(flat(sent[other]), other, group) for other in others))


def direct_reduce_scatter(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """Piece r of the sum by all-to-all and one sum on the spot: a rank sends K (N-1)/N, and waits
    one message's time.

    gloo's own reduce_scatter is an all-reduce inside, and sends twice that.
    """
    r, n = begin(tensor, group)
    sent = chunks(tensor, n)
    received = sent[r].new_empty(n, sent[r].numel())
    all_to_all(list(received), sent, group)
    return received.sum(0, dtype=tensor.dtype)
