"""One layer: what its graph saves, from GPT-3's 34 bytes to Llama's 41, and what a byte costs."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mathlib import specs
from mathlib.memory import kept
from mathlib.model import gpt
from mathlib.show.schemes import activations as schemes

SMALL = gpt.small(width=64, heads=4, context=64).but(dropout=True)
B = 2  # sequences


def dropped(x: Tensor) -> Tensor:
    """torch's own dropout, with a mask of one byte a number, as on a GPU."""
    return torch.native_dropout(x, 0.1, True)[0]


class Layer34(nn.Module):
    def __init__(self, h: int, a: int):
        super().__init__()
        self.a, self.norms = a, nn.ModuleList([nn.LayerNorm(h), nn.LayerNorm(h)])
        self.qkv, self.out = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(2, (3, self.a, -1)).unbind(2)
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # b a s d
        future = torch.ones(len(x[0]), len(x[0]), dtype=torch.bool).triu(1)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(future, float("-inf"))
        y = dropped(scores.softmax(-1)) @ v
        x = x + dropped(self.out(y.transpose(1, 2).flatten(2)))
        return x + dropped(self.down(F.gelu(self.up(self.norms[1](x)))))


def saved_by(result: Tensor, weights: Iterable[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The nodes of a graph in the order of the forward and what each saves: a storage once, and
    no weights.
    """
    nodes: dict[Any, int] = {}
    todo: list[Any] = [result.grad_fn]
    while todo:
        node = todo.pop()
        if node and node not in nodes:
            nodes[node] = node._sequence_nr()
            todo += [before for before, _ in node.next_functions]
    seen = {p.untyped_storage()._cdata for p in weights}
    for node in sorted(nodes, key=lambda node: nodes[node]):
        for name in sorted(dir(node), key=lambda name: name != "_saved_self"):
            tensor = getattr(node, name) if name.startswith("_saved_") else None
            if isinstance(tensor, Tensor):
                if tensor.untyped_storage()._cdata not in seen:
                    yield node.name().removesuffix("Backward0"), tensor
                seen.add(tensor.untyped_storage()._cdata)


def graph() -> tuple[list[tuple[str, str, str, float, float]], float]:
    """Rows of node, type, name in the figure, bytes of s b h listed and found, for `Layer34` in
    bf16; and the share of small tensors: statistics of the norms and the causal mask.
    """
    s, h = SMALL.context, SMALL.width
    layer = Layer34(h, SMALL.heads).bfloat16()
    x = torch.ones(B, s, h, dtype=torch.bfloat16, requires_grad=True)
    saved = [
        (node, t, t.untyped_storage().nbytes() / (s * B * h))
        for node, t in saved_by(layer(x), layer.parameters())
    ]
    small = [one for one in saved if one[1].numel() in (1, B * s, s * s)]
    listed = {one.name: one.bytes / (s * B * h) for one in kept.tensors(SMALL, micro_batch=B)}
    names = [name for names in schemes.GELU.values() for name in names]
    large = [one for one in saved if not any(one is other for other in small)]
    rows = [
        (
            node,
            str(t.dtype).removeprefix("torch."),
            schemes.called(name, SMALL),
            listed.get(name, 2.0),  # the layer's input is not among its tensors
            size,
        )
        for (node, t, size), name in zip(large, names, strict=True)
    ]
    return rows, sum(size for *_, size in small) / sum(size for *_, size in saved)


def in_units(model: str | specs.Model, policy: str = "none", **options: Any) -> float:
    """Bytes of s b h that a layer keeps."""
    model = specs.find_model(model)
    names = kept.names(model, policy=policy, **options)
    return kept.layer(model, keep=names, **options).bytes / (model.context * model.width)


def modern() -> dict[str, float]:
    """From a layer of GPT-3 to one of Llama 3's kind, one change after the other."""
    wide = specs.find_model("gpt3-175b")
    gated = wide.but(gated=True, ffn_width=3.5 * wide.width)
    grouped = gated.but(kv_heads=wide.heads // 4)
    bare: dict[str, Any] = {"dropout": False}
    flash = bare | {"attention": "flash"}
    return {
        "GPT-3": in_units(wide),
        "no dropout": in_units(wide, **bare),
        "a flash kernel": in_units(wide, **flash),
        "a gated MLP of 3.5 h": in_units(gated, **flash),
        "4 query heads share keys": in_units(grouped, **flash),
    }


def prices(name: str) -> list[list[str]]:
    """What a layer keeps besides its input, in bytes of s b h, and FLOP a byte; cheapest first."""
    model = specs.find_model(name)
    unit, found = model.context * model.width, kept.tensors(model)
    free = sum(one.bytes for one in found if not one.flop) / unit
    rows = [["all that is no matmul", f"{free:.3g}", "0"]]
    for one in sorted(found, key=lambda one: one.flop / one.bytes):
        if one.flop:
            label = "scores" if one.name == "softmax" else schemes.called(one.name, model)
            rows.append([label, f"{one.bytes / unit:.3g}", f"{one.flop / one.bytes:,.0f}"])
    return rows


def more(name: str, policy: str, device: str = "", X: float = 0) -> float:
    """FLOP done again over those of a step, of the layers alone; on a device, seconds over
    seconds.
    """
    names = kept.names(name, policy=policy)
    step = 3 * kept.forward_flop(name)
    if not device:
        return kept.layer(name, keep=names).flop / step
    W = specs.find_device(device).memory_bandwidth
    return kept.again_seconds(name, keep=names, flops_per_second=X, bytes_per_second=W) / step * X


def told(name: str, policy: str) -> tuple[str, str, str]:
    """Bytes of all layers, more FLOP, and more time on an H100 at 400 TFLOP/s."""
    model = specs.find_model(name)
    size = in_units(name, policy) * model.context * model.width * model.layers
    seconds = more(name, policy, "h100-sxm", 400e12)
    return f"{size / 1e9:.1f} GB", f"{more(name, policy):.0%}", f"{seconds:.1%}"


def corners(name: str) -> list[tuple[float, float]]:
    """The best choices where the price of the next byte changes, each the same in every layer:
    bytes in % of everything, FLOP in % of a step.
    """
    model = specs.find_model(name)
    found, unit = kept.tensors(model), model.context * model.width
    whole, step = in_units(model) * unit, 3 * kept.forward_flop(model)
    limits = sorted({one.flop / one.bytes for one in found} - {0}, reverse=True)
    names = [[one.name for one in found if one.flop >= p * one.bytes] for p in limits]
    choices = [kept.layer(model, keep=keep) for keep in ([], *names)]
    return [(100 * one.bytes / whole, 100 * one.flop / step) for one in choices]


def point(name: str, policy: str) -> list[tuple[float, float]]:
    """A policy in the same percentages."""
    return [(100 * in_units(name, policy) / in_units(name), 100 * more(name, policy))]


PCIE = 16 * 32e9 * 128 / 130 / 8  # 5.0, 16 lanes
LINKS = {"PCIe": PCIE, "PCIe at 50 GB/s": 50e9, "NVLink-C2C": 450e9}


def causal_flop(name: str) -> float:
    """FLOP of a layer's forward whose kernel skips the future: half of both matmuls over tokens."""
    core = sum(one.flop for one in kept.tensors(name) if one.name == "projection input")
    return kept.forward_flop(name) - core / 2


def links(X: float = 400e12) -> list[list[str]]:
    """GB/s from which fetching a matrix's or a causal kernel's result beats recomputing it, and to
    hide all copies; the share of a layer that leaves hidden over each link.
    """
    rows = []
    for name in ("llama3-8b", "llama3-70b"):
        model = specs.find_model(name)
        inner = (model.width, model.context)  # a causal kernel sums over half of 2 s
        rates = [kept.even_bandwidth(inner=i, flops_per_second=X) for i in inner]
        hiding = kept.hiding_bandwidth(name, flops_per_second=X)
        rates.append(hiding * kept.forward_flop(name) / causal_flop(name))
        shares = [f"{min(1, W / rates[-1]):.0%}" for W in LINKS.values()]
        rows.append([model.title, *(f"{W / 1e9:.0f}" for W in rates), *shares])
    return rows
