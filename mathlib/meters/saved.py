"""Bytes that a step keeps: those of tensor storages, each once however many views it has."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
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
