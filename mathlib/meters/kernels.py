"""Every kernel of a real step: its FLOP, the bytes it reads and writes, and the time it takes.

A kernel that returns a view moves nothing. Any other reads its tensors once and writes its results
once; what it needs besides, in its own code, nobody sees.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from mathlib.meters.flop import CPU_FLASH

KINDS = {  # kind: beginnings of kernels' names; what fits none is "copies and sums"
    "matmuls": ("mm", "addmm", "bmm", "baddbmm"),
    "flash attention": ("_scaled_dot_product",),
    "softmax": ("_softmax", "masked_fill"),
    "norms": ("native_layer_norm", "_fused_rms_norm"),
    "activation function": ("gelu", "silu"),
    "loss": ("_log_softmax", "nll_loss"),
    "embedding": ("embedding",),
    "optimizer": ("_fused_adam",),
}
REST = "copies and sums"
WRITE_ONLY = ("zeros", "ones", "new_", "fill", "zero")
PICKING = ("embedding", "nll_loss_forward", "nll_loss_backward")  # read a number here and there


@dataclass(frozen=True)
class Kernel:
    """One call of one kernel."""

    name: str  # mm, native_layer_norm, ...
    flop: int  # of matmuls; 0 for everything else
    moved: int  # bytes read and written
    seconds: float
    shape: tuple[int, ...] = ()  # of its first result

    @property
    def kind(self) -> str:
        for kind, names in KINDS.items():
            if self.name.startswith(names):
                return kind
        return REST


def own_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of some tensors, each once; a dimension that is only repeated costs nothing."""
    distinct = {
        (t.untyped_storage()._cdata, t.storage_offset(), t.shape, t.stride()): t for t in tensors
    }
    return sum(
        t.element_size()
        * torch.Size(n for n, step in zip(t.shape, t.stride(), strict=True) if step).numel()
        for t in distinct.values()
    )


class KernelMeter(TorchDispatchMode):
    """Lists every kernel that runs inside it, in order; `finish` waits for a device that works
    ahead, such as torch.cuda.synchronize. On a shared CPU, time.process_time is a `clock` that
    stands still while others have the core.
    """

    def __init__(
        self,
        finish: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []
        self.finish, self.clock = finish, clock

    # type: ignore[no-untyped-def]
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.finish()
        start = self.clock()
        result = function(*args, **(kwargs or {}))
        self.finish()
        spent = self.clock() - start
        if not function.is_view:
            self._book(function, args, kwargs or {}, result, spent)
        return result

    # type: ignore[no-untyped-def]
    def _book(self, function, args, kwargs, result, spent: float) -> None:
        """Write a kernel down, unless its results only look at old numbers or wait for new ones."""
        given, made = _tensors((args, kwargs)), _tensors(result)
        name, old = function.overloadpacket.__name__, {_place(t) for t in given}
        changed = _tensors(_changed(function, args, kwargs))
        made = [t for t in made if _place(t) not in old] + changed
        if not made or name.startswith(("empty", "new_empty")):
            return
        read = [] if name.startswith(WRITE_ONLY) or name in PICKING else given
        moved = own_bytes(made) + own_bytes(read)
        flop = _flop(function.overloadpacket, args, result)
        self.kernels.append(Kernel(name, flop, moved, spent, tuple(made[0].shape)))


def _tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _changed(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[object]:
    """What a kernel changes in its place; a fused optimizer says so of gradients that it only
    reads.
    """
    named = dict(zip((a.name for a in function._schema.arguments), args, strict=False)) | kwargs
    return [
        named[a.name]
        for a in function._schema.arguments
        if a.alias_info and a.alias_info.is_write and a.name in named and a.name != "grads"
    ]


def _flop(kernel: Any, args: tuple[Any, ...], result: object) -> int:
    if kernel in CPU_FLASH:
        count: Any = CPU_FLASH[kernel]
        return int(count(*args))
    return int(flop_registry[kernel](*args, out_val=result)) if kernel in flop_registry else 0


def kernels_of(
    action: Callable[[], object],
    finish: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Kernel]:
    """The kernels that an action runs, in order."""
    with KernelMeter(finish, clock) as meter:
        action()
    return meter.kernels
