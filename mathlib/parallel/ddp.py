"""Data parallel training: every rank has the whole model and a part of the batch; backward leaves
the mean gradient.

N ranks, K bytes of gradients.  A rank's loss is the mean over its part; if all parts have one size,
the mean of the ranks' gradients is the gradient of the whole batch (else weigh a rank's loss with N
* its share of the batch).
`average_gradients` is the naive way: after backward, one all-reduce a parameter.  `DDP` is what
PyTorch does (Li et al.
2020): gradients are gathered in buckets, and a full bucket is in flight while backward goes on.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.futures import Future

from mathlib.meters.trace import Trace
from mathlib.parallel.alike import check_unchanged, first_difference, inventory, told_by_all
from mathlib.parallel.buckets import buckets_of, check_dense, reachable, type_and_place

MIB = 2**20
MIXED_ADAM = "mathlib.model.mixed_adam"  # whose hooks take gradients away
Hook = Callable[[Tensor, ProcessGroup | None], Future]


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters that get a gradient, by name; a tied one once, a frozen one not at all."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def broadcast(tensors: Iterable[Tensor], group: ProcessGroup | None = None) -> None:
    """Give every rank what rank 0 of the group has, in one message for each type of number."""
    for _, alike in groupby(sorted(tensors, key=type_and_place), key=type_and_place):
        # not detach(): an equal value must not trouble a graph that saved it
        ours = [tensor.data for tensor in alike]
        flat = torch.cat([tensor.reshape(-1) for tensor in ours])
        dist.broadcast(flat, group=group, group_src=0)
        parts = flat.split([tensor.numel() for tensor in ours])
        for tensor, part in zip(ours, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


def average_gradients(module: nn.Module, group: ProcessGroup | None = None) -> None:
    """Naive: after backward, all-reduce the gradients one by one, with nothing else to
    do meanwhile.

    Chapter: data_parallel (eq-mean-of-means)
    """
    for p in trainable(module).values():
        if p.grad is None:  # another rank may have one; if none has, it becomes a zero
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size(group)


def summed(flat: Tensor, group: ProcessGroup | None) -> Future:
    """The usual hook: begin to replace the bucket by its sum over the ranks; the future says when
    it is there.
    """
    return dist.all_reduce(flat, group=group, async_op=True).get_future()


FIND_UNUSED = (
    "If they are meant to be unused now and then, say find_unused_parameters=True; else let every "
    "output take part in the loss."
)


class MissingGradients(RuntimeError):
    """Some parameters never got a gradient, so their buckets never left; `names` says which."""

    def __init__(self, names: list[str], of: int, advice: str = FIND_UNUSED):
        super().__init__(
            f"{len(names)} of {of} parameters got no gradient in this backward, while other ranks "
            f"may wait for them: {', '.join(names)}. {advice}"
        )
        self.names = names


class DDP(nn.Module):
    """The module, and after its backward the mean of all ranks' gradients in every `grad`, a view
    of its bucket: clone a gradient that is to outlive the next backward.

    bucket_bytes and first_bucket_bytes say when a bucket is full; hook(flat, group) adds one up;
    trace records each. Whether a backward sends is settled by the last forward before it: not if
    that ran inside `no_sync`. Activation checkpointing works in its non-reentrant form.
    """

    def __init__(
        self,
        module: nn.Module,
        group: ProcessGroup | None = None,
        *,
        bucket_bytes: float = 25 * MIB,
        first_bucket_bytes: float = MIB,
        find_unused_parameters: bool = False,
        hook: Hook = summed,
        trace: Trace | None = None,
    ):
        super().__init__()
        self.module, self.group, self.hook = module, group, hook
        self.trace = trace or Trace(on=False)
        self.ranks = dist.get_world_size(group)
        self.find_unused = find_unused_parameters
        self.syncing = True  # outside no_sync
        self.sending = True  # the last forward was
        self.rebuilt = False
        self.backward: int | None = None  # autograd's number for the backward that is in flight
        self.sizes = first_bucket_bytes, bucket_bytes
        self.names = {p: name for name, p in trainable(module).items()}
        self.unused: set[nn.Parameter] = set()
        self._check_parameters()
        self._check_ranks_agree()
        self.wrapped = inventory(module.named_parameters())
        broadcast([*module.parameters(), *module.buffers()], group)
        self._build(reversed(self.names))  # backward comes to the last layer first
        for p in self.names:
            p.register_post_accumulate_grad_hook(self._arrived)

    def _check_parameters(self) -> None:
        if not self.names:
            raise ValueError("the module has no trainable parameters: nothing to average")
        for p, name in self.names.items():
            if p.is_meta:
                raise ValueError(
                    f"{name} is on the meta device: expected a tensor with numbers, to send to all "
                    "ranks"
                )
            hooks = (p._post_accumulate_grad_hooks or {}).values()
            if any(getattr(hook, "__func__", None) is DDP._arrived for hook in hooks):
                raise ValueError(
                    f"{name} is in another DDP already, which would average its gradient a second "
                    "time"
                )
            if any(getattr(hook, "__module__", "") == MIXED_ADAM for hook in hooks):
                raise ValueError(
                    f"{name} gives its gradient to MixedAdam before the ranks have met: expected "
                    'gradients = "half"'
                )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a DDP cannot be copied or saved, as its hooks stay behind: copy its `module`, wrap "
            "the copy"
        )

    def _check_ranks_agree(self) -> None:
        mine = inventory([*self.module.named_parameters(), *self.module.named_buffers()])
        models = told_by_all(mine, self.group)
        for rank, other in enumerate(models):
            if apart := first_difference(models[0], other):
                raise ValueError(
                    f"ranks hold different models: rank 0 has {apart[0]}; in its place rank {rank} "
                    f"has {apart[1]}"
                )

    def _build(self, order: Iterable[nn.Parameter]) -> None:
        self.buckets = buckets_of(order, *self.sizes)
        self.home = {p: bucket for bucket in self.buckets for p in bucket.slots}

    def layout(self) -> list[list[str]]:
        """Names of the parameters in each bucket, in the order of sending."""
        return [[self.names[p] for p in bucket.slots] for bucket in self.buckets]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.backward = None  # whatever became of the last one
        if self.training and self.syncing:
            broadcast(self.module.buffers(), self.group)
        outputs = self.module(*args, **kwargs)
        if torch.is_grad_enabled():
            self.sending = self.syncing
            if self.find_unused and self.sending:
                self._find_unused(outputs)
        return outputs

    def _find_unused(self, outputs: Any) -> None:
        self.unused = set(self.names) - reachable(outputs)
        if len(self.unused) == len(self.names):
            raise RuntimeError(
                "what forward returned leads to no parameter at all, so that no backward could "
                "tell the other ranks: expected tensors, or lists, tuples, dictionaries and "
                "dataclasses of them, that at least one parameter took part in"
            )

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """What runs forward inside the block keeps its gradients on the rank; the next backward
        sends the sum of all.
        """
        outside, self.syncing = self.syncing, False
        try:
            yield
        finally:
            self.syncing = outside

    def _begin(self) -> None:
        """First gradient of a backward: empty the buckets, and leave no place for those that will
        not come.
        """
        check_unchanged(self.wrapped, inventory(self.module.named_parameters()))
        self.backward, self.next = torch._C._current_graph_task_id(), 0
        self.taken: dict[nn.Parameter, int] = {}  # in order of arrival: the version of its slot
        for bucket in self.buckets:
            bucket.missing = set(bucket.slots)
        torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        for p in self.unused:
            self._share(p)

    def _share(self, p: nn.Parameter) -> Tensor:
        """Put this rank's share of the mean into the parameter's slot, in one pass; no gradient
        counts as zero.
        """
        bucket = self.home[p]
        bucket.missing.discard(p)
        if p.grad is None:
            return bucket.slots[p].zero_()
        return torch.div(p.grad.detach(), self.ranks, out=bucket.slots[p])

    def _arrived(self, p: nn.Parameter) -> None:
        """Autograd has added to a gradient: move it into its slot, and send every bucket
        whose turn has come.
        """
        if not self.sending:
            return
        self._check_arrival(p)
        if self.backward is None:
            self._begin()
        p.grad = self._share(p)
        self.taken[p] = p.grad._version
        self._send_full()

    def _check_arrival(self, p: nn.Parameter) -> None:
        name = self.names[p]
        if p in self.unused:  # its bucket counts on a zero, and may have left
            raise RuntimeError(
                f"{name} got a gradient, but what the last forward returned does not lead to it: "
                "with find_unused_parameters, the loss must come from that forward's outputs, as "
                "tensors or in lists, tuples, dictionaries and dataclasses."
            )
        if self.backward not in (None, torch._C._current_graph_task_id()):
            raise RuntimeError(
                "a backward began while another had not ended: either that one broke off, then run"
                " forward again; or checkpoint is reentrant, then give it use_reentrant=False."
            )
        if p.grad is None:
            raise RuntimeError(f"{name} lost its gradient to another hook before DDP could send it")
        check_dense(name, p.grad)
        if p.grad.requires_grad:
            raise RuntimeError(
                f"{name} has a gradient with a graph of its own (create_graph=True), which the mean"
                " over the ranks has not: take such gradients by torch.autograd.grad."
            )

    def _send_full(self) -> None:
        """Buckets leave on all ranks in the same order, so a full one may have to wait."""
        while self.next < len(self.buckets) and not self.buckets[self.next].missing:
            self._send(self.next)
            self.next += 1

    def _send(self, number: int) -> None:
        flat = self.buckets[number].flat
        what = f"all-reduce of bucket {number}"
        end = self.trace.begin(what, "communication", flat.nbytes)
        arrival = self.hook(flat, self.group)
        if not hasattr(arrival, "wait"):
            raise TypeError(
                f"the hook returned {arrival!r}: expected a future, whose end it waits for"
            )

        def note_the_end(future: Future) -> object:
            end()
            return future.value()

        if self.trace.on:
            arrival = arrival.then(note_the_end)
        self.buckets[number].arrival = arrival

    def _finish(self) -> None:
        """End of a backward: let the rest leave, wait until all are back, and show the means."""
        self.backward = None
        lost = [p for bucket in self.buckets for p in bucket.missing]
        if lost and not self.find_unused:
            raise MissingGradients(sorted(self.names[p] for p in lost), len(self.names))
        for p in lost:  # behind an output, but not behind the loss
            self._share(p)
        self._send_full()
        with self.trace.span("wait for the last buckets", "idle"):
            for bucket in self.buckets:
                bucket.take(bucket.arrival.wait())
        self._check_untouched()
        if self.find_unused:
            self._show_where_used()
        elif not self.rebuilt:
            self._rebuild()

    def _check_untouched(self) -> None:
        for p, version in self.taken.items():
            slot = self.home[p].slots[p]
            if p.grad is not slot or slot._version != version:
                raise RuntimeError(
                    f"another hook took or changed the gradient of {self.names[p]} while the ranks "
                    "were forming the mean: register it before wrapping, or change gradients after "
                    "backward"
                )

    def _show_where_used(self) -> None:
        """A parameter that no rank used must keep a gradient of None: the optimizer must not see
        it.
        """
        here = [p.grad is not None for p in self.names]
        somewhere = torch.tensor(here, dtype=torch.int32, device=self.buckets[0].flat.device)
        dist.all_reduce(somewhere, group=self.group)
        for p, ranks in zip(self.names, somewhere.tolist(), strict=True):
            if ranks:
                p.grad = self.home[p].slots[p]

    def _rebuild(self) -> None:
        """After the first step: buckets in the order in which the gradients arrived on rank 0."""
        self.rebuilt = True
        parameters = list(self.names)
        place = {p: number for number, p in enumerate(parameters)}
        order = torch.tensor([place[p] for p in self.taken], device=self.buckets[0].flat.device)
        broadcast([order], self.group)
        self._build(parameters[number] for number in order.tolist())
