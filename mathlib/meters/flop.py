"""What a real step computes, counted: FLOP of matmuls (2 m n k each) by part, as in the
formulas.
"""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from mathlib.parts import Parts

PARTS = {
    "qkv": "attention projections",
    "out": "attention projections",
    "up": "mlp",
    "down": "mlp",
    "head": "vocabulary",
    "gate": "mlp",
    "router": "router",
}
PLACES = {  # a module above the layer, where its own name does not tell
    "experts": "experts",
    "shared": "shared experts",
    "attention": "attention projections",
}
CORE = "attention core"
aten = torch.ops.aten
# torch's counter knows flash attention on CUDA only; without these two the CPU kernel counts as
# nothing.
CPU_FLASH = {
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(
        q.shape, k.shape, v.shape
    ),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda g, q, k, v, *_, **__: (
        sdpa_backward_flop_count(g.shape, q.shape, k.shape, v.shape)
    ),
}


def part_of(layer: str) -> str:
    """The part of the formula that a linear layer of this name belongs to."""
    *above, own = layer.split(".")
    placed = [PLACES[name] for name in above if name in PLACES]
    return placed[0] if placed else PARTS.get(own, "linear")


class FlopMeter(TorchDispatchMode):
    """Adds up the FLOP of every matmul from the shapes of its call, by part.

    A matmul belongs to the linear layer whose weight it reads, or whose input, as that layer's
    weight gradient does.  All others are the attention core.  (Not by module: recomputation runs
    inside another's backward.)

    The sum is right for every model, the parts for models made of linear layers.  A layer is booked
    with a slice of its weight, and with x @ x.T where x is its input; the core with weights that no
    nn.Linear holds: a convolution's, a bare parameter's, nn.MultiheadAttention's for q, k and v.
    CPU kernels of fused attention count here, and as nothing in torch's FlopCounterMode.
    """

    def __init__(self, model: nn.Module, part_of: Callable[[str], str] = part_of):
        super().__init__()
        self.parts: Counter[str] = Counter()
        self.weights = {
            layer.weight.untyped_storage()._cdata: part_of(name)
            for name, layer in model.named_modules()
            if isinstance(layer, nn.Linear)
        }
        self.inputs: dict[int, str] = {}
        self.waiting: tuple[set[int], int] = set(), 0  # operands of the last matmul, its FLOP

    # type: ignore[no-untyped-def]
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result, kernel = function(*args, **(kwargs or {})), function.overloadpacket
        old, new = (
            {t.untyped_storage()._cdata for t in tree_leaves(x) if isinstance(t, Tensor)}
            for x in ((args, kwargs), result)
        )
        for fresh in new - old:  # the address of a tensor that is gone
            self.inputs.pop(fresh, None)
        if kernel in CPU_FLASH:
            self.parts[CORE] += CPU_FLASH[kernel](*args)
        elif kernel in flop_registry:
            flop = flop_registry[kernel](*args, out_val=result)
            self._add([a for a in args if isinstance(a, Tensor)], flop)
        return result

    def _add(self, operands: list[Tensor], flop: int) -> None:
        """A weight's gradient may be computed before that of its input, and from an input that no
        forward has shown: the matmul after it tells, by the gradient that both read.
        """
        part, storages = self._part(operands), {t.untyped_storage()._cdata for t in operands}
        before, theirs = self.waiting
        if part != CORE and before & storages:
            self.parts[CORE] -= theirs
            self.parts[part] += theirs
        self.parts[part] += flop
        maybe = part == CORE and all(tensor.dim() == 2 for tensor in operands)
        self.waiting = (storages, flop) if maybe else (set(), 0)

    def _part(self, operands: list[Tensor]) -> str:
        storages = [tensor.untyped_storage()._cdata for tensor in operands]
        found = [self.weights[key] for key in storages if key in self.weights]
        if found:
            self.inputs |= dict.fromkeys(storages, found[0])
            return found[0]
        return next((self.inputs[key] for key in storages if key in self.inputs), CORE)


def by_kernel(parts: Parts) -> dict[str, float]:
    """The parts as a counter of kernels sees them: both attention matmuls are one core, the
    look-up is nothing.
    """
    amounts = {name: parts.amount(name) for name in parts if parts.amount(name)}
    core = amounts.pop("attention scores", 0) + amounts.pop("attention values", 0)
    return amounts | ({"attention core": core} if core else {})


def count_flop(
    forward: Callable[[], Tensor], model: nn.Module, early_stop: bool = True
) -> tuple[Counter[str], Counter[str]]:
    """FLOP of one forward and of its backward, each by part; recomputation falls into the
    backward.

    `early_stop`, as torch's use_reentrant=False has it unless told otherwise: a recomputation ends
    at the last tensor that backward needs. Without it, each layer's forward runs to its end, as
    Megatron-LM's does.
    """
    with FlopMeter(model) as meter, set_checkpoint_early_stop(early_stop):
        loss = forward()
        ahead = +meter.parts
        loss.backward()
    meter.parts.subtract(ahead)
    return ahead, +meter.parts
