"""ZeRO stage 1: every rank has the whole model and all gradients, and optimizer states for 1/N.

N ranks    K bytes of gradients
After the last backward of a step the gradients are reduce-scattered, row by row, each rank updates
its pieces of the weights, and the pieces are gathered: 2 K (N-1)/N sent, as much as DDP's
all-reduce.
"""

import math
from collections import deque
from collections.abc import Iterable
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.checks import InputError
from mathlib.meters.trace import Trace
from mathlib.parallel.alike import check_unchanged, inventory
from mathlib.parallel.buckets import bucket_lists
from mathlib.parallel.ddp import MissingGradients, broadcast
from mathlib.parallel.zero import flat_shards
from mathlib.parallel.zero.flat_shards import SILENT, FlatShard, Scattering, alike
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer, grouped, optimizer_over

MIB = 2**20
WITHOUT_GRADIENT = (
    "A sharded optimizer updates rows in which they lie, and cannot leave them out: let every "
    "parameter take part in the loss (0 * its sum is enough), or freeze it with "
    "requires_grad_(False) before the module is sharded."
)


def in_backward() -> bool:
    """Whether autograd is at work: what runs forward now is a recomputation."""
    return torch._C._current_graph_task_id() != -1


class Zero1:
    """Train a module in place: backward as often as you like, then `step`.

    make is called with parameter groups and returns a torch optimizer (and a few times more, with
    a small tensor, to try whether it treats every element by itself); groups as torch takes them;
    clip bounds the norm of the whole gradient; master keeps fp32 weights beside a 16-bit module.
    Rows have about bucket_bytes, and so many of them may be in flight at once: what is sent and
    what arrives is never all gradients, and a row is packed while the one before it travels. By
    default 4 MiB: a row then gets the pages that an earlier one gave back, where one of 25 MiB gets
    fresh ones from the system, which cost about as much as the copy; 1 MiB was no faster.
    A parameter without a gradient is refused by its name: the optimizer cannot leave it out.
    Buffers are treated as DDP does: before a forward in training, every rank gets rank 0's. The
    module's zero_grad, the optimizer's and this one's all drop the gradients that have come.
    `sums`: gradients are added up over the ranks, as the loss has been divided by all that counts.
    """

    sent: deque[tuple[list[FlatShard], Scattering]]  # rows that left as one, the oldest first

    def __init__(
        self,
        module: nn.Module,
        make: MakeOptimizer,
        group: ProcessGroup | None = None,
        *,
        groups: Iterable | None = None,
        clip: float = math.inf,
        master: bool = False,
        bucket_bytes: float = 4 * MIB,
        in_flight: int = 2,
        sums: bool = False,
        trace: Trace | None = None,
    ):
        self.bucket_bytes, self.most_sent = bucket_bytes, in_flight
        self.module, self.group, self.most, self.master = module, group, clip, master
        self.ranks = 1 if sums else dist.get_world_size(group)  # what gradients are divided by
        self.trace = trace or SILENT
        self._start_alike()
        self.names = {p: name for name, p in module.named_parameters()}
        self.groups = grouped(module, groups)
        self.shards: list[FlatShard] = []
        self.optimizer = optimizer_over(make, self.groups, self._lay_out())
        for owner in (module, self.optimizer):
            owner.zero_grad = self.zero_grad  # type: ignore[method-assign]
        self.wrapped = self._inventory()
        # compiled code calls the hooks as they are: it would not see that weights come and go
        module.register_forward_pre_hook(torch.compiler.disable(lambda *_: self._start()))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a sharded module cannot be copied or saved whole, as its hooks stay behind: save it "
            "with mathlib.parallel.checkpoint"
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients that have come, wherever they are."""
        for p in [*self.module.parameters(), *(s.shard for s in self.shards)]:
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    def _inventory(self) -> list[str]:
        """What must stay as it was when the module was wrapped: of the module and the optimizer."""
        held = [
            (f"group {number} of the optimizer", p)
            for number, group in enumerate(self.optimizer.param_groups)
            for p in group["params"]
        ]
        return inventory([*self.module.named_parameters(), *held], strides=False)

    def _check_unchanged(self) -> None:
        check_unchanged(self.wrapped, self._inventory())
        for row in self.every_row():
            if row.kept:
                row.check_home()

    def _start(self) -> None:
        """The module's forward begins."""
        if in_backward():
            return
        self._check_unchanged()
        if self.module.training:
            self._tell_all(self.module.buffers())

    def _start_alike(self) -> None:
        """Every rank begins with rank 0's numbers."""
        if unreal := [name for name, p in self.module.named_parameters() if p.is_meta]:
            raise InputError(
                f"module: {unreal[0]} and {len(unreal) - 1} others on the meta device, expected "
                "with numbers; Zero3 and Mics take a function `fill` that makes them"
            )
        self._tell_all([*self.module.parameters(), *self.module.buffers()])

    def _tell_all(self, tensors: Iterable[Tensor]) -> None:
        broadcast(tensors, self.everyone)

    def _lay_out(self) -> list[tuple[int, nn.Parameter]]:
        """Fill `shards`, and say which parameter group each one's optimizer states belong to."""
        found = []
        for number, some in enumerate(self.groups):
            for names in self._rows({p: self.names[p] for p in some["params"]}):
                row = FlatShard(names, self.group, master=self.master, trace=self.trace)
                row.name = f"row {len(self.shards)}"
                self.shards.append(row)
                found.append((number, row.shard))
        return found

    def _rows(self, names: dict[nn.Parameter, str]) -> list[dict[nn.Parameter, str]]:
        """Buckets of neighbours, from the last layer to the first, as backward comes to them."""
        backwards = dict(reversed(names.items()))
        return [
            {p: names[p] for p in bucket}
            for some in alike(backwards)
            for bucket in bucket_lists(some, self.bucket_bytes, self.bucket_bytes)
        ]

    @property
    def everyone(self) -> ProcessGroup | None:
        """The group of all ranks that train together."""
        return self.group

    def every_row(self) -> list[FlatShard]:
        """Every row that this rank has a shard of."""
        return self.shards

    @torch.no_grad()
    def step(self) -> Tensor | None:
        """Reduce the gradients, update this rank's pieces, let all ranks have the weights;
        returns the gradient's norm if it is to be clipped.
        """
        self.reduce()
        return self.update()

    @torch.no_grad()
    def reduce(self) -> None:
        """Reduce-scatter the gradients: the shards have those of all ranks."""
        self._check_unchanged()
        self._refuse_missing(p for s in self.shards for p in s.names if p.grad is None)
        self.sent = deque()
        for s in self.shards:
            self._send(s)
        self._settle(0)

    @torch.no_grad()
    def update(self) -> Tensor | None:
        """Update the shards by gradients that are reduced, and gather the weights of all."""
        norm = self._update()
        self._publish()
        return norm

    def _update(self) -> Tensor | None:
        """Update the shards by their gradients, and drop these."""
        for s in self.shards:
            s.take_edits()
        bounded = math.isfinite(self.most)
        norm = flat_shards.clip(self.shards, self.most, self.group) if bounded else None
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def _publish(self) -> None:
        for transfer in [s.publish() for s in self.shards]:
            transfer.wait()

    def _send(self, s: FlatShard) -> None:
        """Let a row leave, as soon as there is room on the way."""
        self._settle(self.most_sent - 1)
        self.sent.append(([s], s.begin_scatter(self.ranks)))

    def _settle(self, left: int) -> None:
        """Wait until only so many rows are in flight, and keep what came of the others."""
        while len(self.sent) > left:
            rows, scattering = self.sent.popleft()
            pieces = scattering.wait(rows[0].shard.dtype).split([s.length for s in rows])
            for s, piece in zip(rows, pieces, strict=True):
                s.add(piece)

    def _refuse_missing(self, parameters: Iterable[nn.Parameter]) -> None:
        if lost := sorted(self.names[p] for p in parameters):
            raise MissingGradients(lost, len(self.names), WITHOUT_GRADIENT)
