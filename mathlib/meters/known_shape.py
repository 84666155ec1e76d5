"""What the formulas say of a reader's own model: its shape, read off the program, and the amounts
of a step that follow from it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.from_config import from_config
from mathlib.memory import activations
from mathlib.specs import Layout, Model

Shape = tuple[int, int]  # sequences, tokens of each
BEHIND = ("post_feedforward_layernorm", "post_mlp_layernorm")  # norms behind the MLP


def architecture(model: nn.Module) -> tuple[nn.Module, Model]:
    """The module whose shape the formulas know, ours or one of transformers, and that shape."""
    for module in model.modules():
        shape, config = getattr(module, "model", None), getattr(module, "config", None)
        if isinstance(shape, Model):
            return module, shape
        if config is not None and hasattr(config, "to_dict"):
            eager = getattr(config, "_attn_implementation", "") == "eager"
            read = from_config(config.to_dict())
            return module, read.but(attention="standard" if eager else "flash")
    raise InputError(f"{type(model).__name__} has no config that the formulas could read")


@contextmanager
def forwards(module: nn.Module) -> Iterator[list[Shape]]:
    """Sequences and tokens of every forward of a module: those of its first whole numbers."""
    shapes: list[Shape] = []

    def note(_: nn.Module, *given: object) -> None:
        tensors = [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
        numbers = [t.shape for t in tensors if t.dim() == 2 and t.dtype == torch.long]
        shapes.extend((shape[0], shape[1]) for shape in numbers[:1])

    hook = module.register_forward_pre_hook(note, with_kwargs=True)
    yield shapes
    hook.remove()


def recomputes(module: nn.Module) -> str:
    """Which activations a program computes again, as it says itself."""
    if any(getattr(part, "gradient_checkpointing", False) is True for part in module.modules()):
        return "full"
    return str(getattr(module, "recompute", "none"))


def stops_early(module: nn.Module) -> bool:
    """Whether a recomputation ends at the last tensor that is needed, as torch's does unless
    use_reentrant is True.
    """
    checkpoints = (getattr(part, "_gradient_checkpointing_func", None) for part in module.modules())
    return not any(getattr(one, "keywords", {}).get("use_reentrant", False) for one in checkpoints)


def _saves_last(module: nn.Module, model: Model) -> bool:
    """Whether dropout or a norm stands behind the MLP and needs the result of its last matmul."""
    names = {name.rpartition(".")[2] for name, _ in module.named_modules()}
    return model.dropout and module.training or not names.isdisjoint(BEHIND)


def amounts(module: nn.Module, model: Model, shapes: list[Shape]) -> dict[str, float]:
    """What a step of these forwards computes and keeps, with the program's own kernel."""
    how = 2.5 if model.attention == "flash" else 2
    again = recomputes(module)
    found = {"model FLOP": 0.0, "FLOP": 0.0, "bytes saved": 0.0}
    for B, s in shapes:
        found["model FLOP"] += flops.training(model, sequences=B, tokens=s).total
        found["FLOP"] += flops.training(
            model,
            sequences=B,
            tokens=s,
            attention_backward=how,
            recompute=again,
            early_stop=stops_early(module),
            last_matmul=_saves_last(module, model),
        ).total
        kept = activations.stage(
            model,
            Layout(micro_batch=B, recompute=again),
            tokens=s,
            dropout=model.dropout and module.training,
            bytes_per_element=next(module.parameters()).element_size(),
            small_tensors=True,
        ).total
        found["bytes saved"] = max(found["bytes saved"], kept)  # one forward after the other
    return found
