"""Ring collectives, by nothing but send and receive (Patarasuk and Yuan 2009).

N   ranks in a ring, of which this one is r
K   bytes of the tensor: contiguous, and cut into N chunks, equal ones or at `cuts`

reduce-scatter   rank r ends with chunk r of the sum           K (N-1)/N sent
all-gather       rank r brings chunk r, ends with all of them  K (N-1)/N sent
all-reduce       the one, then the other                       2 K (N-1)/N sent

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.ring
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

Group = ProcessGroup | None
Cuts = Sequence[int] | None  # where the second chunk begins, the third, ...


def place(group: Group) -> tuple[int, int]:
    """This rank's number in the group, and the group's size."""
    return dist.get_rank(group), dist.get_world_size(group)


def pass_on(give: Tensor, take: Tensor, group: Group) -> None:
    """One step of the ring: give to the right neighbor, take from the left one."""
    r, N = place(group)
    sent = dist.isend(give, group=group, group_dst=(r + 1) % N)
    dist.recv(take, group=group, group_src=(r - 1) % N)
    sent.wait()


def reduce_scatter(tensor: Tensor, group: Group = None, cuts: Cuts = None) -> Tensor:
    """Return this rank's chunk of the sum; the other chunks are left half summed."""
    r, N = place(group)
    chunk = tensor.view(-1).tensor_split(cuts or N)
    for step in range(1, N):  # a chunk starts right of its owner, and ends at it
        give, take = chunk[(r - step) % N], chunk[(r - step - 1) % N]
        arrived = torch.empty_like(take)
        pass_on(give, arrived, group)
        take += arrived  # and in the next step we give this
    return chunk[r]


def all_gather(tensor: Tensor, group: Group = None, cuts: Cuts = None) -> None:
    """Fill in the chunks of the other ranks."""
    r, N = place(group)
    chunk = tensor.view(-1).tensor_split(cuts or N)
    for step in range(1, N):  # a chunk starts at its owner, and ends left of it
        give, take = chunk[(r - step + 1) % N], chunk[(r - step) % N]
        pass_on(give, take, group)


def all_reduce(tensor: Tensor, group: Group = None) -> None:
    """Sum in place, on every rank."""
    reduce_scatter(tensor, group)
    all_gather(tensor, group)


def naive_all_reduce(tensor: Tensor, group: Group = None) -> None:
    """The same with whole tensors round the ring: K (N-1) sent, N/2 times as much."""
    _, N = place(group)
    give, take = tensor.clone(), torch.empty_like(tensor)
    for _ in range(1, N):
        pass_on(give, take, group)
        tensor += take
        give, take = take, give


def main() -> None:
    from mathlib.parallel.plain import ddp, script

    for sums in (naive_all_reduce, all_reduce):
        script.train(sums.__name__, ddp.Naive, all_reduce=sums)


if __name__ == "__main__":
    main()
