"""A matmul in chunks of tokens, so that it hides the exchange before or behind it.

t   tensor ranks, in a ring · b s h   numbers of the residual stream · s/t   tokens of a rank
While a chunk of s/t tokens is multiplied, the next one is in flight: of t - 1 messages a rank waits
only for what takes longer than a chunk's matmul (Wang et al. 2023, "Overlap Communication with
Dependent Computation via Decomposition"; torch's async tensor parallelism). The bytes are those of
an all-gather or a reduce-scatter.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.meters.trace import Trace
from mathlib.parallel.messages import Message, finish, rank_and_size, receive, send

Group = ProcessGroup | None
SILENT = Trace(on=False)


def pass_on(give: Tensor, group: Group) -> tuple[Tensor, list[Message]]:
    """Begin to give to the next rank, and to take as much from the one before."""
    r, t = rank_and_size(group)
    take = torch.empty_like(give)
    arriving = receive(take.view(-1), (r - 1) % t, group)
    return take, [send(give.view(-1), (r + 1) % t, group), arriving]


def gather_matmul(
    x: Tensor, weights: Sequence[Tensor], group: Group = None, trace: Trace = SILENT
) -> list[Tensor]:  # b s/t h -> b s o, for each of the matrices
    """The tokens of all ranks times each matrix: a chunk is multiplied while the next arrives."""
    r, t = rank_and_size(group)
    results = [x.new_empty(x.shape[0], t, x.shape[1], w.shape[0]) for w in weights]
    chunk, messages = x.contiguous(), list[Message]()
    for step in range(t):
        if step < t - 1:
            coming, messages = pass_on(chunk, group)
        with trace.span(f"matmul {step}"):
            for result, weight in zip(results, weights, strict=True):
                result[:, (r - step) % t] = F.linear(chunk, weight)
        if step < t - 1:
            with trace.span(f"wait {step}", "idle"):
                finish(*messages)
            chunk = coming
    return [result.flatten(1, 2) for result in results]


def matmul_scatter(
    x: Tensor, weight: Tensor, group: Group = None, trace: Trace = SILENT
) -> Tensor:  # b s i -> b s/t o
    """This rank's tokens of the sum over all ranks of x times the matrix: a chunk is multiplied
    while what others have of its sum arrives.
    """
    r, t = rank_and_size(group)
    chunks, messages, mine, arrived = x.unflatten(1, (t, -1)), list[Message](), x, x
    for step in range(1, t + 1):  # a chunk starts right of its owner, and ends at it
        with trace.span(f"matmul {step}"):
            own = F.linear(chunks[:, (r - step) % t], weight)
        if step > 1:
            with trace.span(f"wait {step}", "idle"):
                finish(*messages)
            own += arrived
        mine = own.contiguous()  # lives until it is sent
        if step < t:
            arrived, messages = pass_on(mine, group)
    return mine
