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

from mathlib.parallel.buckets import bucket_lists
from mathlib.parallel.flat_shards import FlatShard, Scattering, alike
from mathlib.parallel.zero1 import Zero1

MIB = 2**20


class Zero2(Zero1):
    """As Zero1, with rows of about bucket_bytes that leave during backward; so many of them may be
    on their way at once.
    """

    def __init__(
        self, *args: Any, bucket_bytes: float = 25 * MIB, on_their_way: int = 2, **kwargs: Any
    ):
        self.bucket_bytes, self.most_sent = bucket_bytes, on_their_way
        self.backward: int | None = None  # autograd's number for the one under way
        super().__init__(*args, **kwargs)
        self._sort_as_backward_fills()
        self.home = {p: s for s in self.shards for p in s.names}
        for p in self.home:
            p.register_post_accumulate_grad_hook(self._arrived)

    def _rows(self, names: dict[nn.Parameter, str]) -> list[dict[nn.Parameter, str]]:
        """Buckets of neighbours, from the last layer to the first, as backward comes to them."""
        backwards = dict(reversed(names.items()))
        return [
            {p: names[p] for p in bucket}
            for some in alike(backwards)
            for bucket in bucket_lists(some, self.bucket_bytes, self.bucket_bytes)
        ]

    def _sort_as_backward_fills(self) -> None:
        """Rows leave on all ranks in one order: by the place of the last gradient they wait for."""
        place = {p: number for number, p in enumerate(reversed(self.names))}
        self.shards.sort(key=lambda s: max(place[p] for p in s.names))

    def _begin(self) -> None:
        """The first sign of a backward."""
        self.backward, self.next = torch._C._current_graph_task_id(), 0
        self.missing = {s: set(s.names) for s in self.shards}
        self.sent: deque[tuple[FlatShard, Scattering]] = deque()
        torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _arrived(self, p: nn.Parameter) -> None:
        """Autograd has added to a gradient: send every full row whose turn has come."""
        if self.backward is None:
            self._begin()
        self.missing[self.home[p]].discard(p)
        while self.next < len(self.shards) and not self.missing[self.shards[self.next]]:
            self._send(self.shards[self.next])
            self.next += 1

    def _send(self, s: FlatShard) -> None:
        self._settle(self.most_sent - 1)
        self.sent.append((s, Scattering(s.packed_gradients(self.ranks), self.group)))

    def _settle(self, left: int) -> None:
        """Wait until only so many rows are on their way, and keep what came of the others."""
        while len(self.sent) > left:
            s, scattering = self.sent.popleft()
            s.add(scattering.wait(s.shard.dtype))

    def _finish(self) -> None:
        """End of a backward: every row must have left."""
        self.backward = None
        self._refuse_missing(p for s in self.shards for p in self.missing[s])
        self._settle(0)

    def _reduce(self) -> None:
        """Gradients are where they belong since the end of backward."""
        self._refuse_missing(p for s in self.shards if s.shard.grad is None for p in s.names)
