"""ZeRO stage 2: gradients leave for the rank that needs them while backward goes on.

N ranks    K bytes of gradients
A row whose gradients have all come is reduce-scattered and dropped, so that a rank keeps K/N of
them. It happens in every backward: with m micro-batches a step sends (m + 1) K (N-1)/N, where stage
1 sends 2 K (N-1)/N.
"""

from collections import deque
from typing import Any

import torch
from torch import nn

from mathlib.parallel.zero.stage1 import Zero1, in_backward

BROKEN_OFF = (
    "a backward has not ended: either it broke off, then run forward again before the next backward"
    " or step; or checkpoint is reentrant, then give it use_reentrant=False"
)


class Zero2(Zero1):
    """As Zero1, with rows that leave during backward, whose gradients have no graph of their own.

    A backward that broke off takes the gradients of its whole step with it: the next forward drops
    them, and the step begins anew.
    """

    KEEPS_ITS_GRAPH = (
        "a backward with create_graph=True gives gradients a graph of their own, which the mean "
        "over the ranks has not: take such gradients by torch.autograd.grad"
    )

    def __init__(self, *args: Any, **kwargs: Any):
        self.backward: int | None = None  # autograd's number for the one in flight
        super().__init__(*args, **kwargs)
        self._sort_as_backward_fills()
        self._name_rows()
        self.home = {p: s for s in self.shards for p in s.names}
        for p in self.home:
            p.register_post_accumulate_grad_hook(self._arrived)

    def _sort_as_backward_fills(self) -> None:
        """Rows leave on all ranks in one order: by the place of the last gradient they wait for."""
        place = {p: number for number, p in enumerate(reversed(self.names))}
        self.shards.sort(key=lambda s: max(place[p] for p in s.names))

    def _name_rows(self) -> None:
        """What the trace calls them: a number in the order of leaving."""
        for number, s in enumerate(self.shards):
            s.name = f"bucket {number}"

    def _start(self) -> None:
        """Nothing of a backward that broke off may stay."""
        super()._start()
        if self.backward is None or in_backward():
            return
        while self.sent:
            self.sent.popleft()[1].work.wait()
        for s in self.shards:
            s.shard.grad = None
        for p in self.home:
            p.grad = None
        self.backward = None

    def _begin(self) -> None:
        """A sign of a backward; the first one sets everything up."""
        if torch.is_grad_enabled():
            raise RuntimeError(self.KEEPS_ITS_GRAPH)
        number = torch._C._current_graph_task_id()
        if self.backward not in (None, number):
            raise RuntimeError(BROKEN_OFF)
        if self.backward == number:
            return
        self.backward, self.next = number, 0
        self.missing = {s: set(s.names) for s in self.shards}
        self.sent = deque()
        torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _arrived(self, p: nn.Parameter) -> None:
        """Autograd has added to a gradient: send every full row whose turn has come."""
        self._begin()
        self.missing[self.home[p]].discard(p)
        while self.next < len(self.shards) and not self.missing[self.shards[self.next]]:
            self._send(self.shards[self.next])
            self.next += 1

    def _finish(self) -> None:
        """End of a backward: every row must have left."""
        self._refuse_missing(p for s in self.shards for p in self.missing[s])
        self._settle(0)
        self.backward = None

    @torch.no_grad()
    def reduce(self) -> None:
        """The gradients are where they belong since the end of backward."""
        self._check_unchanged()
        self._check_arrived()

    def _check_arrived(self) -> None:
        """Refuse a backward that broke off, and parameters without a gradient."""
        if self.backward is not None:
            raise RuntimeError(BROKEN_OFF)
        without = (s for s in self.shards if s.shard.grad is None)
        self._refuse_missing(p for s in without for p in s.names)
