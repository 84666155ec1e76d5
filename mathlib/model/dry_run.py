"""A training step of any size on torch's meta device: shapes without numbers."""

from collections import Counter

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mathlib.meters.flop import count_flop
from mathlib.model.gpt import GPT
from mathlib.model.modern import Modern
from mathlib.specs import Model

PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")


def dry_run(
    model: Model,
    sequences: int = 1,
    attention: str = "plain",
    recompute: str = "none",
    early_stop: bool = True,
) -> tuple[Counter[str], Counter[str]]:
    """FLOP of a training step of any size: the program runs on torch's meta device, on shapes
    without numbers. `early_stop` as in `count_flop`.
    """
    with torch.device("meta"):
        gpt = GPT(model, attention, recompute)
        return _counted(gpt, model, sequences, early_stop)


def dry_run_modern(model: Model, sequences: int = 1) -> tuple[Counter[str], Counter[str]]:
    """The same for today's models: Llama, Qwen 3, Mixtral, Gemma 3, DeepSeek-V3. A router without
    numbers deals the tokens out evenly.
    """
    with torch.device("meta"):
        return _counted(Modern(model), model, sequences)


def _counted(
    built: GPT | Modern, model: Model, sequences: int, early_stop: bool = True
) -> tuple[Counter[str], Counter[str]]:
    tokens = torch.empty(sequences, model.context, dtype=torch.long)
    return count_flop(lambda: built.loss(tokens, tokens), built, early_stop)


class _OtherNumbers(TorchDispatchMode):
    """Sums the sizes of what kernels write that multiply no matrices; a view writes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    # type: ignore[no-untyped-def]
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not (function.is_view or str(function.overloadpacket) in PRODUCTS):
            self.written += sum(
                leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)
            )
        return result


def other_numbers(model: Model) -> int:
    """Numbers written by everything but products in a forward pass of one sequence."""
    with torch.device("meta"):
        gpt, tokens = GPT(model), torch.empty(1, model.context, dtype=torch.long)
        with torch.no_grad(), _OtherNumbers() as others:
            gpt.loss(tokens, tokens)
    return others.written
