"""Saved activations wait for backward in the host's memory, not in the device's.

What autograd saves in forward is copied to the host and brought back when backward asks for it, a
storage once however many views of it are saved. Weights stay: sharding brings them back itself.
Backward asks in the reverse order, so what comes next is known and can be under way already.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, UntypedStorage, nn
from torch.autograd.graph import saved_tensors_hooks

from mathlib.checks import whole

Packed = Tensor | tuple[int, torch.device, torch.Size, tuple[int, ...], int]
Coming = tuple[Tensor, Any]  # on the device, and on CUDA the event after which it is there


@dataclass
class Moved:
    """What one forward sent to the host, and what came back."""

    bytes: int = 0
    sources: list[weakref.ref[UntypedStorage]] = field(default_factory=list)
    returns: list[tuple[int, int]] = field(default_factory=list)  # (asked for, sent for)
    most: int = 0  # bytes that were back, or on their way, and not yet used: the most of them

    @property
    def left(self) -> int:
        """Bytes of them that the device still holds, because somebody else does."""
        alive = (source() for source in self.sources)
        return sum(storage.nbytes() for storage in alive if storage is not None)


def place_of(tensor: Tensor) -> tuple[torch.Size, tuple[int, ...], int]:
    """Where a tensor's numbers lie in its storage."""
    return tensor.size(), tensor.stride(), int(tensor.storage_offset())


def sent_for(copy: Tensor, device: torch.device) -> Coming:
    """A host's copy on its way to the device; on CUDA beside what is computed meanwhile."""
    if device.type != "cuda":
        return copy.to(device), None
    with torch.cuda.stream(torch.cuda.Stream(device)):
        there = copy.to(device, non_blocking=True)
        return there, torch.cuda.current_stream(device).record_event()


def arrived(coming: Coming) -> Tensor:
    """The same, once it is there."""
    there, event = coming
    if event is not None:
        torch.cuda.current_stream(there.device).wait_event(event)
        there.record_stream(torch.cuda.current_stream(there.device))
    return there


class _Host:
    """The storages that have left, by their numbers in the order of leaving."""

    def __init__(self, moved: Moved, prefetch: int):
        self.moved, self.prefetch = moved, prefetch
        self.copies: dict[int, Tensor] = {}
        self.uses: Counter[int] = Counter()
        self.coming: dict[int, Coming] = {}

    def take(self, storage: UntypedStorage, flat: Tensor) -> int:
        number = len(self.moved.sources)
        self.copies[number] = flat.to("cpu", copy=True)
        self.moved.bytes += storage.nbytes()
        self.moved.sources.append(weakref.ref(storage))
        return number

    def give(self, number: int, device: torch.device) -> Tensor:
        """This storage now, and the ones before it soon."""
        for ahead in range(number, max(-1, number - 1 - self.prefetch), -1):
            if self.uses[ahead] and ahead not in self.coming:
                self.coming[ahead] = sent_for(self.copies[ahead], device)
                self.moved.returns.append((number, ahead))
        back = sum(there.nbytes for there, _ in self.coming.values())
        self.moved.most = max(self.moved.most, back)
        there = arrived(self.coming[number])
        self.uses[number] -= 1
        if not self.uses[number]:
            del self.coming[number], self.copies[number]
        return there


@contextmanager
def offloaded(model: nn.Module, prefetch: int = 0) -> Iterator[Moved]:
    """Keep on the host what forward saves inside the block; `bytes` says how much has left.

    Combines with recomputation: then only what goes into a layer is saved, and leaves. With
    `prefetch` as many storages are sent for before backward asks for them.

    Chapter: activations
    """
    host = _Host(Moved(), whole("prefetch", prefetch, least=0))
    numbers: dict[tuple[int, int], tuple[weakref.ref[UntypedStorage], int]] = {}

    def pack(tensor: Tensor) -> Packed:
        storage = tensor.untyped_storage()
        if storage._cdata in {p.untyped_storage()._cdata for p in model.parameters()}:
            return tensor
        key = storage._cdata, tensor._version
        if key not in numbers or numbers[key][0]() is not storage:
            flat = tensor.detach().as_strided((storage.nbytes() // tensor.itemsize,), (1,), 0)
            numbers[key] = weakref.ref(storage), host.take(storage, flat)
        host.uses[numbers[key][1]] += 1
        return numbers[key][1], tensor.device, *place_of(tensor)

    def unpack(packed: Packed) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        number, device, size, stride, offset = packed
        return host.give(number, device).as_strided(size, stride, offset)

    with saved_tensors_hooks(pack, unpack):
        yield host.moved
    numbers.clear()
