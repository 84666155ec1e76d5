"""Saved activations wait for backward in the host's memory, not in the device's.

What autograd saves in forward is copied to the host and brought back when backward asks for it, a
storage once however many views of it are saved. Weights stay: sharding brings them back itself.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, UntypedStorage, nn
from torch.autograd.graph import saved_tensors_hooks

Packed = Tensor | tuple[int, torch.device, torch.Size, tuple[int, ...], int]


@dataclass
class Moved:
    """What one forward sent to the host, and what came back."""

    bytes: int = 0
    sources: list[weakref.ref[UntypedStorage]] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Bytes of them that the device still holds, because somebody else does."""
        alive = (source() for source in self.sources)
        return sum(storage.nbytes() for storage in alive if storage is not None)


def place_of(tensor: Tensor) -> tuple[torch.Size, tuple[int, ...], int]:
    """Where a tensor's numbers lie in its storage."""
    return tensor.size(), tensor.stride(), int(tensor.storage_offset())


class _Host:
    """The storages that have left, by their numbers in the order of leaving."""

    def __init__(self, moved: Moved):
        self.moved = moved
        self.copies: dict[int, Tensor] = {}
        self.uses: Counter[int] = Counter()
        self.back: dict[int, Tensor] = {}

    def take(self, storage: UntypedStorage, flat: Tensor) -> int:
        number = len(self.moved.sources)
        self.copies[number] = flat.to("cpu", copy=True)
        self.moved.bytes += storage.nbytes()
        self.moved.sources.append(weakref.ref(storage))
        return number

    def give(self, number: int, device: torch.device) -> Tensor:
        """This storage on the device, until its last view has been used."""
        if number not in self.back:
            self.back[number] = self.copies[number].to(device)
        there = self.back[number]
        self.uses[number] -= 1
        if not self.uses[number]:
            del self.back[number], self.copies[number]
        return there


@contextmanager
def offloaded(model: nn.Module) -> Iterator[Moved]:
    """Keep on the host what forward saves inside the block; `bytes` says how much has left.

    Combines with recomputation: then only what goes into a layer is saved, and leaves.

    Chapter: activations
    """
    host = _Host(Moved())
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
