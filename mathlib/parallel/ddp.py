"""Data parallel training: every rank has the whole model and a part of the batch; backward leaves
the mean gradient.

N ranks, K bytes of gradients.  A rank's loss is the mean over its part; if all parts have one size,
the mean of the ranks' gradients is the gradient of the whole batch (else weigh a rank's loss with N
* its share of the batch).
`average_gradients` is the naive way: after backward, one all-reduce a parameter.  `DDP` is what
PyTorch does (Li et al.
2020): gradients are gathered in buckets, and a full bucket is on its way while backward goes on.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.futures import Future
from torch.utils._pytree import tree_leaves

from mathlib.meters.trace import Trace

MIB = 2**20
Hook = Callable[[Tensor, ProcessGroup | None], Future]


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters that get a gradient, by name; a tied one once, a frozen one not at all."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def broadcast(tensors: Iterable[Tensor], group: ProcessGroup | None = None) -> None:
    """Give every rank what rank 0 of the group has, in one message for each type of number."""
    for _, alike in groupby(sorted(tensors, key=_type), key=_type):
        alike = [
            tensor.data for tensor in alike
        ]  # not detach(): an equal value must not trouble a graph that saved it
        flat = torch.cat([tensor.reshape(-1) for tensor in alike])
        dist.broadcast(flat, group=group, group_src=0)
        for tensor, part in zip(
            alike, flat.split([tensor.numel() for tensor in alike]), strict=True
        ):
            tensor.copy_(part.view_as(tensor))


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tensor.device}"


def average_gradients(module: nn.Module, group: ProcessGroup | None = None) -> None:
    """Naive: after backward, all-reduce the gradients one by one, with nothing else to do
    meanwhile.
    """
    for p in trainable(module).values():
        if p.grad is None:  # another rank may have one; if none has, the optimizer gets a zero
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size(group)


def summed(flat: Tensor, group: ProcessGroup | None) -> Future:
    """The usual hook: begin to replace the bucket by its sum over the ranks; the future says when
    it is there.
    """
    return dist.all_reduce(flat, group=group, async_op=True).get_future()


def summed_in_fp16(flat: Tensor, group: ProcessGroup | None) -> Future:
    """A hook that sends half the bytes: numbers are rounded to fp16 on the way, and the sum is
    formed in fp16.
    """
    if flat.is_complex():
        raise TypeError(f"gradients of type {flat.dtype}: expected real ones, to be sent as fp16")
    half = flat.half()
    return (
        dist.all_reduce(half, group=group, async_op=True)
        .get_future()
        .then(lambda _: flat.copy_(half))
    )


class MissingGradients(RuntimeError):
    """Some parameters never got a gradient, so their buckets never left; `names` says which."""

    def __init__(self, names: list[str], of: int):
        super().__init__(
            f"{len(names)} of {of} parameters got no gradient in this backward, while other ranks "
            "may wait"
            f" for them: {', '.join(names)}. If they are meant to be unused now and then, say"
            " find_unused_parameters=True; else let every output take part in the loss."
        )
        self.names = names


class Bucket:
    """Gradients that travel together: one flat tensor, and a slot in it for each parameter.

    What leaves is the rank's share of the mean, its gradient / N, so that the ranks need only add;
    and a sum of shares does not overflow.
    """

    def __init__(self, parameters: list[nn.Parameter]):
        sizes = [p.numel() for p in parameters]
        self.flat = torch.zeros(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        self.slots = {
            p: part.view_as(p) for p, part in zip(parameters, self.flat.split(sizes), strict=True)
        }
        self.missing = set(parameters)
        self.arrival: Future | None = None


def buckets_of(
    parameters: Iterable[nn.Parameter], first_bytes: float, bytes: float
) -> list[Bucket]:
    """Buckets for gradients that arrive in this order, listed in the order in which they get full.

    A bucket holds one type of number, and is full when it has reached its size or passed it. The
    first of a type is small, so that the wire has something to do early.
    """
    buckets: list[list[nn.Parameter]] = []
    filling: dict[str, list[nn.Parameter]] = {}
    room: dict[str, float] = {}
    place: dict[nn.Parameter, int] = {}
    for p in parameters:
        kind, place[p] = _type(p), len(place)
        if kind not in filling:
            room[kind] = bytes if kind in room else first_bytes
            buckets.append(filling.setdefault(kind, []))
        filling[kind].append(p)
        room[kind] -= p.nbytes
        if room[kind] <= 0:
            del filling[kind]
    return [Bucket(bucket) for bucket in sorted(buckets, key=lambda bucket: place[bucket[-1]])]


def reachable(outputs: object) -> set[nn.Parameter]:
    """The parameters in the graph behind the outputs, found by walking it."""
    tensors = [t for t in tree_leaves(outputs) if isinstance(t, Tensor)]
    nodes = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen, found = set(nodes), {t for t in tensors if isinstance(t, nn.Parameter)}
    while nodes:
        node = nodes.pop()
        if hasattr(node, "variable"):  # the node that adds to a leaf's gradient
            found.add(node.variable)
        new = {parent for parent, _ in node.next_functions if parent is not None} - seen
        seen |= new
        nodes += new
    return found


class DDP(nn.Module):
    """The module, and after its backward the mean of all ranks' gradients in every `grad`, a view
    of its bucket.

    bucket_bytes and first_bucket_bytes say when a bucket is full; hook(flat, group) adds one up;
    trace records each.
    Activation checkpointing works in its non-reentrant form.
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
        self.module, self.group, self.hook, self.trace = (
            module,
            group,
            hook,
            trace or Trace(on=False),
        )
        self.ranks = dist.get_world_size(group)
        self.find_unused, self.syncing, self.rebuilt = find_unused_parameters, True, False
        self.backward: int | None = None  # autograd's number for the backward that is under way
        self.sizes = first_bucket_bytes, bucket_bytes
        self.names = {p: name for name, p in trainable(module).items()}
        self.unused: set[nn.Parameter] = set()
        self._check_parameters()
        self._check_ranks_agree()
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

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a DDP cannot be copied or saved, as its hooks stay behind: copy its `module`, wrap "
            "the copy"
        )

    def _check_ranks_agree(self) -> None:
        mine = [(name, tuple(p.shape), str(p.dtype)) for p, name in self.names.items()]
        models: list = [None] * self.ranks
        dist.all_gather_object(models, mine, group=self.group)
        for rank, other in enumerate(models):
            if other != models[0]:
                a, b = next(
                    (a, b)
                    for a, b in zip(models[0] + [None], other + [None], strict=False)
                    if a != b
                )
                raise ValueError(
                    f"ranks hold different models: rank 0 has {a} where rank {rank} has {b}"
                )

    def _build(self, order: Iterable[nn.Parameter]) -> None:
        self.buckets = buckets_of(order, *self.sizes)
        self.home = {p: bucket for bucket in self.buckets for p in bucket.slots}

    def layout(self) -> list[list[str]]:
        """Names of the parameters in each bucket, in the order of sending."""
        return [[self.names[p] for p in bucket.slots] for bucket in self.buckets]

    def forward(self, *args: object, **kwargs: object) -> object:
        self.backward = None  # whatever became of the last one
        if self.training and self.syncing:
            broadcast(self.module.buffers(), self.group)
        outputs = self.module(*args, **kwargs)
        if self.find_unused and self.syncing and torch.is_grad_enabled():
            self.unused = set(self.names) - reachable(outputs)
        return outputs

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward inside the block keeps its gradients on the rank; the next one outside sends the
        sum of all.
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
        self.backward, self.order, self.next = torch._C._current_graph_task_id(), [], 0
        for bucket in self.buckets:
            bucket.missing = set(bucket.slots)
        torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        if not self.find_unused:
            return
        here = [p not in self.unused or p.grad is not None for p in self.names]
        self.somewhere = torch.tensor(here, dtype=torch.int32, device=self.buckets[0].flat.device)
        self.asked = dist.all_reduce(self.somewhere, group=self.group, async_op=True)
        for p in self.unused:
            self._share(p)
            self.home[p].missing.discard(p)

    def _share(self, p: nn.Parameter) -> Tensor:
        """Put this rank's share of the mean into the parameter's slot, in one pass; no gradient
        counts as zero.
        """
        slot = self.home[p].slots[p]
        if p.grad is None:
            return slot.zero_()
        if p.grad.layout != torch.strided:
            raise TypeError(
                f"{self.names[p]} has a gradient of layout {p.grad.layout}: expected a dense one"
            )
        return torch.div(p.grad.detach(), self.ranks, out=slot)

    def _arrived(self, p: nn.Parameter) -> None:
        """Autograd has added to a gradient: move it into its slot, and send every bucket whose turn
        has come.
        """
        if not self.syncing:
            return
        if p in self.unused:  # its bucket counts on a zero, and may have left
            raise RuntimeError(
                f"{self.names[p]} got a gradient, but what the last forward returned does not lead "
                "to"
                " it: with find_unused_parameters, the loss must come from that forward's outputs, "
                "as"
                " tensors or in lists, tuples and dictionaries."
            )
        if self.backward is None:
            self._begin()
        elif self.backward != torch._C._current_graph_task_id():
            raise RuntimeError(
                "a backward began while another had not ended: either that one broke off, then run"
                " forward again; or checkpoint is reentrant, then give it use_reentrant=False."
            )
        p.grad = self._share(p)
        self.order.append(p)
        self.home[p].missing.discard(p)
        while (
            self.next < len(self.buckets) and not self.buckets[self.next].missing
        ):  # on all ranks in the same order
            self._send(self.next)
            self.next += 1

    def _send(self, number: int) -> None:
        bucket = self.buckets[number]
        end = self.trace.begin(
            f"all-reduce of bucket {number}", "communication", bucket.flat.nbytes
        )
        bucket.arrival = self.hook(bucket.flat, self.group)
        if self.trace.on:
            bucket.arrival = bucket.arrival.then(lambda future: (future.value(), end()))

    def _finish(self) -> None:
        """End of a backward: all buckets have left; wait until all are back."""
        self.backward = None
        if lost := [self.names[p] for bucket in self.buckets for p in bucket.missing]:
            raise MissingGradients(sorted(lost), len(self.names))
        with self.trace.span("wait for the last buckets", "idle"):
            for bucket in self.buckets:
                bucket.arrival.wait()
        if self.find_unused:
            self.asked.wait()
            for p, ranks in zip(self.names, self.somewhere.tolist(), strict=True):
                if ranks:  # where no rank used it, the optimizer must not see it
                    p.grad = self.home[p].slots[p]
        elif not self.rebuilt:
            self._rebuild()

    def _rebuild(self) -> None:
        """After the first step: buckets in the order in which the gradients arrived on rank 0."""
        self.rebuilt = True
        parameters = list(self.names)
        place = {p: number for number, p in enumerate(parameters)}
        order = torch.tensor([place[p] for p in self.order], device=self.buckets[0].flat.device)
        broadcast([order], self.group)
        self._build(parameters[number] for number in order.tolist())
