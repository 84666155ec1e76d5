"""Saved activations wait for backward in the host's memory, not in the device's.

What autograd saves in forward is copied to the host and brought back when backward asks for it, a
storage once however many views of it are saved. Weights stay: sharding brings them back itself.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, UntypedStorage, nn
from torch.autograd.graph import saved_tensors_hooks

Packed = Tensor | tuple[Tensor, torch.device, torch.Size, tuple[int, ...], int]


@dataclass
class Moved:
    """What one forward sent to the host."""

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


@contextmanager
def offloaded(model: nn.Module) -> Iterator[Moved]:
    """Keep on the host what forward saves inside the block; `bytes` says how much has left.

    Combines with recomputation: then only what goes into a layer is saved, and leaves.

    Chapter: mics
    """
    moved = Moved()
    copies: dict[tuple[int, int], tuple[weakref.ref[UntypedStorage], Tensor]] = {}

    def pack(tensor: Tensor) -> Packed:
        storage = tensor.untyped_storage()
        if storage._cdata in {p.untyped_storage()._cdata for p in model.parameters()}:
            return tensor
        key = storage._cdata, tensor._version
        if key not in copies or copies[key][0]() is not storage:
            whole = tensor.detach().as_strided((storage.nbytes() // tensor.itemsize,), (1,), 0)
            copies[key] = weakref.ref(storage), whole.to("cpu", copy=True)
            moved.bytes += storage.nbytes()
            moved.sources.append(copies[key][0])
        return copies[key][1], tensor.device, *place_of(tensor)

    def unpack(packed: Packed) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        copy, device, size, stride, offset = packed
        return copy.to(device).as_strided(size, stride, offset)

    with saved_tensors_hooks(pack, unpack):
        yield moved
    copies.clear()
