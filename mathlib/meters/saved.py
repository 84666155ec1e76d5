"""Bytes that a step keeps: those of tensor storages, each once however many views it has; and the
most that all storages hold, whoever made them, classes that are not ours too.

Every storage is asked for its size anew, so that one whose bytes come and go counts right. It knows
no kinds; `meters.live` does.
"""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def saved_bytes(forward: Callable[[], Tensor], model: nn.Module) -> int:
    """Bytes that autograd keeps between forward and backward, parameters left out."""
    kept: dict[int, int] = {}
    weights = {p.untyped_storage()._cdata for p in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = forward()
    del loss
    return sum(kept.values())


def tensor_bytes(things: object) -> int:
    """Bytes of all tensors in a nest of lists and dictionaries, each storage once."""
    tensors = [leaf for leaf in tree_leaves(things) if isinstance(leaf, Tensor)]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


class Storages(TorchDispatchMode):
    """`peak` is the most that was alive after any operation inside the block."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.found: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.peak = 0
        for p in model.parameters():
            self.follow(p)

    def follow(self, tensor: Tensor) -> None:
        if tensor.is_meta:  # a shape that holds nothing
            return
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        storage = local.untyped_storage()
        known = self.found.get(storage._cdata)
        if known is None or known() is None:  # addresses come again
            self.found[storage._cdata] = weakref.ref(storage)

    def _bytes(self) -> int:
        held = {key: ref() for key, ref in self.found.items()}
        alive = {key: storage for key, storage in held.items() if storage is not None}
        self.found = {key: self.found[key] for key in alive}
        return sum(storage.nbytes() for storage in alive.values())

    # type: ignore[no-untyped-def]
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.follow(leaf)
        self.peak = max(self.peak, self._bytes())
        return result
