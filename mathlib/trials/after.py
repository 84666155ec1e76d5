"""Adapters beside full fine-tuning in real steps: bytes of every part, peaks, gradients, and what
ranks send and keep.
"""

from typing import Any

import torch
from torch import Tensor, nn

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import activations, adapters, fit, states
from mathlib.meters import saved
from mathlib.model import llama, lora

SHAPE = specs.find_model("llama3-8b").but(
    **{"name": "small", "title": "a small Llama", "layers": 3, "width": 64, "heads": 4},
    **{"kv_heads": 2, "head_dim": 16, "vocab": 1000, "context": 16, "ffn_width": 192},
)
METHODS = ("full", "LoRA", "QLoRA")
RANK, SEQUENCES, NUMBER = 4, 2, 4  # of adapters; of a batch; bytes of a number


def built(method: str, shape: specs.Model = SHAPE, seed: int = 0) -> nn.Module:
    """A model to be fine-tuned; adapters lie beside all matrices of its layers."""
    torch.manual_seed(seed)
    net: nn.Module = llama.Llama(shape)
    if method == "full":
        return net
    return lora.adapt(net, rank=RANK, targets=adapters.TARGETS, quantised=method == "QLoRA")


def batch(shape: specs.Model = SHAPE, number: int = 0, many: int = SEQUENCES) -> list[Tensor]:
    draw = torch.Generator().manual_seed(number)
    rows = torch.randint(shape.vocab, (many, shape.context + 1), generator=draw)
    return [rows[:, :-1], rows[:, 1:]]


def trained(net: nn.Module) -> list[nn.Parameter]:
    return [p for p in net.parameters() if p.requires_grad]


# On one device


def _stepped(net: nn.Module, shape: specs.Model) -> tuple[torch.optim.Optimizer, Any]:
    """After a first step, so that the optimizer has its states; and the next."""
    own = trained(net)
    optimizer = torch.optim.AdamW(own, foreach=False)

    def step() -> None:
        optimizer.zero_grad(set_to_none=len(own) == len(list(net.parameters())))
        net.loss(*batch(shape)).backward()  # type: ignore[operator]
        optimizer.step()

    step()
    return optimizer, step


def _moments(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [t for of in optimizer.state.values() for t in of.values() if t.dim()]


def held(method: str) -> dict[str, tuple[float, float]]:
    """Bytes of each part in training, by formula and measured."""
    net = built(method)
    optimizer, _ = _stepped(net, SHAPE)
    own = trained(net)
    packed = [m for m in net.modules() if isinstance(m, lora.Nf4Linear)]
    found = {
        "frozen": [p for p in net.parameters() if not p.requires_grad],
        "4 bits": [m.packed for m in packed],
        "scales": [t for m in packed for t in (m.scales, m.second)],
        "trained weights": own,
        "gradients": [p.grad for p in own],
        "optimizer states": _moments(optimizer),
    }
    measured = {name: saved.tensor_bytes(of) for name, of in found.items() if of}
    measured["activations"] = saved.saved_bytes(lambda: net.loss(*batch()), net)  # type: ignore[operator]
    told = predicted(method)
    return {name: (told[name], size) for name, size in measured.items()}


def predicted(method: str, shape: specs.Model = SHAPE) -> dict[str, float]:
    """The same parts by the formulas, everything in 32 bits but the 4-bit matrices."""
    if method == "full":
        own: float = params.total(shape)
        how: dict[str, Any] = {"bytes_per_element": NUMBER, "small_tensors": True}
        kept = activations.stage(shape, specs.Layout(micro_batch=SEQUENCES), **how)
        parts = {"activations": kept.total}
    else:
        own = params.lora(shape, rank=RANK, targets=adapters.TARGETS).total
        whole = needed(method, shape)
        names = {"frozen weights": "frozen", "other frozen weights": "frozen"}
        names |= {"matrices in 4 bits": "4 bits", "scales": "scales", "activations": "activations"}
        parts = {names[part]: whole.amount(part) for part in whole if part in names}
    each = states.model_states(own, recipe="adam-fp32")
    parts |= {name: each.amount(name) for name in ("gradients", "optimizer states")}
    return parts | {"trained weights": NUMBER * own}


def needed(method: str, shape: specs.Model = SHAPE) -> Any:
    """The fullest moment of a step by the formula."""
    how: dict[str, Any] = {"bytes_per_element": NUMBER, "small_tensors": True}
    if method == "full":
        layout = specs.Layout(micro_batch=SEQUENCES)
        return fit.training(shape, layout, recipe="adam-fp32", optimizer="for-loop", **how)
    more = {"rank": RANK, "quantised": method == "QLoRA", "recipe": "adam-fp32"}
    return adapters.training(shape, micro_batch=SEQUENCES, **more, **how)  # type: ignore[arg-type]


def _follow(meter: saved.Storages, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """What is there before the step; nobody else may hold gradients that it drops."""
    for tensor in (*net.buffers(), *_moments(optimizer), *(p.grad for p in trained(net))):
        meter.follow(tensor)  # type: ignore[arg-type]


def peak(method: str, tokens: int) -> tuple[float, float]:
    """The most bytes alive in a step, by formula and measured."""
    shape = SHAPE.but(context=tokens)
    net = built(method, shape)
    optimizer, step = _stepped(net, shape)
    with saved.Storages(net) as meter:
        _follow(meter, net, optimizer)
        step()
    return needed(method, shape).total, meter.peak
