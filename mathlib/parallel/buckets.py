"""Buckets of gradients, and which parameters a result leads to: the bookkeeping of DDP.

A bucket's slots have the strides of their parameters, so that an optimizer that walks through
weights and gradients side by side (a fused one) finds the same element in the same place.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass

import torch
from torch import Tensor, nn
from torch.futures import Future
from torch.utils._pytree import tree_leaves


def type_and_place(tensor: Tensor) -> str:
    """What must be alike in tensors that travel as one."""
    return f"{tensor.dtype} {tensor.device}"


class Bucket:
    """Gradients that travel together: one flat tensor, and a slot in it for each parameter.

    What leaves is the rank's share of the mean, its gradient / N, so that the ranks need only add;
    and a sum of shares does not overflow.
    """

    missing: set[nn.Parameter]  # whose gradient has not come in this backward
    arrival: Future

    def __init__(self, parameters: list[nn.Parameter]):
        sizes = [p.numel() for p in parameters]
        self.flat = torch.zeros(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        self.slots = {
            p: slot(part, p) for p, part in zip(parameters, self.flat.split(sizes), strict=True)
        }

    def take(self, sums: object) -> None:
        """What the hook's future held: nothing, this bucket or another tensor, alone or in a
        list.
        """
        (total,) = sums if isinstance(sums, list) else [sums]
        if isinstance(total, Tensor) and total.data_ptr() != self.flat.data_ptr():
            self.flat.copy_(total.view_as(self.flat))


def check_dense(name: str, gradient: Tensor) -> None:
    """Refuse a gradient that has no place for every element, such as a sparse embedding's."""
    if gradient.layout != torch.strided:
        raise TypeError(f"{name} has a gradient of layout {gradient.layout}: expected a dense one")


def slot(part: Tensor, p: nn.Parameter) -> Tensor:
    """A piece of the bucket in the parameter's form. `data`: who writes there can be told, by the
    version.
    """
    strides = torch.empty_like(p, device="meta").stride()  # the parameter's, made dense
    return part.data.as_strided(p.shape, strides, part.storage_offset())


def buckets_of(
    parameters: Iterable[nn.Parameter], first_bytes: float, bytes: float
) -> list[Bucket]:
    """Buckets for gradients that arrive in this order, in the order in which they get full."""
    return [Bucket(bucket) for bucket in bucket_lists(parameters, first_bytes, bytes)]


def bucket_lists(
    parameters: Iterable[nn.Parameter], first_bytes: float, bytes: float
) -> list[list[nn.Parameter]]:
    """Which parameters share a bucket.

    A bucket holds one type of number, and is full when it has reached its size or passed it. The
    first of a type is small, so that the wire has something to do early.
    """
    buckets: list[list[nn.Parameter]] = []
    filling: dict[str, list[nn.Parameter]] = {}
    room: dict[str, float] = {}
    place: dict[nn.Parameter, int] = {}
    for p in parameters:
        kind, place[p] = type_and_place(p), len(place)
        if kind not in filling:
            room[kind] = bytes if kind in room else first_bytes
            buckets.append(filling.setdefault(kind, []))
        filling[kind].append(p)
        room[kind] -= p.nbytes
        if room[kind] <= 0:
            del filling[kind]
    return sorted(buckets, key=lambda bucket: place[bucket[-1]])


def tensors_in(outputs: object) -> Iterator[Tensor]:
    """Every tensor in lists, tuples, mappings and dataclasses, however deep."""
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, Tensor):
            yield leaf
        elif isinstance(leaf, Mapping):
            yield from tensors_in(list(leaf.values()))
        elif is_dataclass(leaf):
            yield from tensors_in(list(vars(leaf).values()))


def reachable(outputs: object) -> set[nn.Parameter]:
    """The parameters in the graph behind the outputs, found by walking it."""
    tensors = list(tensors_in(outputs))
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
