"""A training step of any size on torch's meta device: shapes without numbers."""

from collections import Counter
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mathlib.meters.flop import count_flop
from mathlib.model.gpt import GPT
from mathlib.model.modern import Modern
from mathlib.specs import Model

MATMULS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")


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


def dry_run_layers(model: Model, sequences: int = 1) -> tuple[Counter[str], Counter[str]]:
    """`dry_run_modern` of a model with too many layers to build: a layer of each kind, dense and
    with experts, runs once, and counts as often as the model has it. The bias that steers a
    router's choice, which multiplies nothing, is left out.
    """
    forward, backward = Counter[str](), Counter[str]()
    sparse = model.expert_layers
    for layers, dense in ((sparse, 0), (model.layers - sparse, 1)):
        if not layers:
            continue
        kind = model.experts
        if kind:
            kind = replace(kind, dense_layers=dense, every=1, router_bias=False)
        one = model.but(layers=1, experts=kind)
        for whole, run in zip((forward, backward), dry_run_modern(one, sequences), strict=True):
            last = run.pop("vocabulary")
            whole.update({part: layers * flop for part, flop in run.items()})
            whole["vocabulary"] = last
    return forward, backward


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
        if not (function.is_view or str(function.overloadpacket) in MATMULS):
            self.written += sum(
                leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)
            )
        return result


def other_numbers(model: Model) -> int:
    """Numbers written by everything but matmuls in a forward pass of one sequence."""
    with torch.device("meta"):
        gpt, tokens = GPT(model), torch.empty(1, model.context, dtype=torch.long)
        with torch.no_grad(), _OtherNumbers() as others:
            gpt.loss(tokens, tokens)
    return others.written
