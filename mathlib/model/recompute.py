"""Recomputation, written out: forward drops what backward needs, backward makes it again.

`again_whole` is the reentrant form: one node of the graph whose backward runs a graph of its own.
`recomputed` takes the place of what autograd saves, and may keep some operations' results.
Neither knows of autocast; torch's own do.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

Function = Callable[..., Tensor]
Policy = Callable[[str, int, Any], bool]  # operation, how many of its kind were before, result
Wrap = Callable[[Function, Tensor], Tensor]  # how a layer is applied to its input

FLASH = "_scaled_dot_product_flash_attention_for_cpu"
# The operation whose result stands for a tensor of memory.kept, and which of its kind it is.
GPT = {
    "attention input": ("native_layer_norm", 0),
    "queries": ("addmm", 0),  # with keys and values, in one matmul
    "softmax": ("bmm", 0),  # the scores: as large, and softmax is no matmul
    "projection input": ("bmm", 1),
    "2. norm input": ("addmm", 1),  # what is added to the residual stream
    "mlp input": ("native_layer_norm", 1),
    "activation input": ("addmm", 2),
    "second input": ("gelu", 0),
}
GPT_FLASH = GPT | {"projection input": (FLASH, 0)}
GATED = {  # a norm multiplies twice: by its scale, and then by its weight
    "attention input": ("mul", 1),
    "queries": ("mm", 0),
    "keys": ("mm", 1),
    "values": ("mm", 2),
    "projection input": (FLASH, 0),
    "2. norm input": ("mm", 3),
    "mlp input": ("mul", 3),
    "gate": ("mm", 4),
    "up": ("mm", 5),
    "activated gate": ("silu", 0),
    "second input": ("mul", 4),
}


def nothing(operation: str, before: int, result: Any) -> bool:
    """The policy that keeps no results."""
    return False


def these(names: Iterable[str], places: dict[str, tuple[str, int]]) -> Policy:
    """The policy that keeps the tensors of these names, as `memory.kept` calls them."""
    wanted = {places[name] for name in names if name in places}
    return lambda operation, before, result: (operation, before) in wanted


class Remember(TorchDispatchMode):
    """Forward: note the results that a policy keeps."""

    def __init__(self, policy: Policy, kept: dict[tuple[str, int], Any]):
        super().__init__()
        self.policy, self.kept, self.count = policy, kept, Counter[str]()

    # type: ignore[no-untyped-def]
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        key = name, self.count[name]
        self.count[name] += 1
        if self.policy(*key, result):
            self.kept[key] = tree_map(_bare, result)
        return result


class Recall(TorchDispatchMode):
    """Backward: give back what was noted, and compute the rest."""

    def __init__(self, kept: dict[tuple[str, int], Any]):
        super().__init__()
        self.kept, self.count = kept, Counter[str]()

    # type: ignore[no-untyped-def]
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        key = name, self.count[name]
        self.count[name] += 1
        return self.kept.pop(key) if key in self.kept else function(*args, **(kwargs or {}))


def _bare(leaf: Any) -> Any:
    """A tensor without its history."""
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


class _Held(torch.autograd.Function):
    """A node that nobody goes through: it saves tensors where meters and offloading see them."""

    @staticmethod
    def forward(ctx: Any, wanted: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return wanted.clone()


def _held(*tensors: Tensor) -> Any:
    """The node itself, whose saved_tensors they are."""
    return _Held.apply(torch.empty(0, requires_grad=True), *tensors).grad_fn


class _Enough(Exception):
    """All that backward needs is there again."""


class _Forgotten:
    """A function that ran, of which autograd holds numbers in the place of tensors: each one's
    place in the row of those that it would have saved.
    """

    def __init__(self, function: Function, above: float, early_stop: bool):
        self.function, self.above, self.early_stop = function, above, early_stop
        self.rng = torch.get_rng_state()
        self.count = self.place = 0  # tensors forgotten; those that are there again
        self.made: dict[int, Tensor] = {}
        self.held: list[Any] = []  # the inputs and what is kept, until the function runs again

    def run(self, inputs: tuple[Tensor, ...], keep: Policy) -> Tensor:
        """Forward."""
        kept: dict[tuple[str, int], Any] = {}
        self.wants = [x.requires_grad for x in inputs]
        with saved_tensors_hooks(self.pack, self.unpack), Remember(keep, kept):
            result = self.function(*inputs)
        tensors, self.shape = tree_flatten(kept)
        self.held.append(_held(*inputs, *tensors))
        return result

    def pack(self, tensor: Tensor) -> Tensor | int:
        """What autograd holds from forward on."""
        if tensor.nbytes <= self.above:
            return tensor
        self.count += 1
        return self.count - 1

    def unpack(self, packed: Tensor | int) -> Tensor:
        """What backward gets for it; the first that is asked for makes them all."""
        if isinstance(packed, Tensor):
            return packed
        if packed not in self.made:
            self.run_again()
        return self.made.pop(packed)

    def run_again(self) -> None:
        """Forward once more, from the inputs and what is kept."""
        saved, n = self.held.pop().saved_tensors, len(self.wants)
        fresh = [x.detach().requires_grad_(w) for x, w in zip(saved, self.wants, strict=False)]
        hooks = saved_tensors_hooks(self.note, _gone)
        once_more = Recall(tree_unflatten(list(saved[n:]), self.shape))
        del saved
        self.place = 0
        with _random(self.rng), torch.enable_grad(), hooks, once_more, suppress(_Enough):
            self.function(*fresh)

    def note(self, tensor: Tensor) -> None:
        """A tensor is there again; after the last of them the rest of the function is idle work."""
        if tensor.nbytes > self.above:
            self.made[self.place] = tensor.detach()
            self.place += 1
        if self.early_stop and self.place == self.count:
            raise _Enough


def recomputed(
    function: Function,
    *inputs: Tensor,
    keep: Policy = nothing,
    above: float = -1,
    early_stop: bool = True,
) -> Tensor:
    """`function(*inputs)`, of which autograd keeps the inputs and what `keep` says.

    What it would save is replaced by a number, its place in the row of saved tensors. The first
    number that backward asks for runs the function again. `above` leaves what has no more bytes
    to autograd, and drops what is larger.

    Chapter: activations (eq-again)
    """
    return _Forgotten(function, above, early_stop).run(inputs, keep)


def _gone(packed: object) -> Tensor:
    raise AssertionError("a recomputation's own graph goes backward")


@contextmanager
def _random(state: Tensor) -> Iterator[None]:
    """The same dropout masks once more."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(state)
        yield


class Whole(torch.autograd.Function):
    """A function as one node of the graph, which runs again in backward."""

    @staticmethod
    def forward(ctx: Any, function: Function, *inputs: Tensor) -> Tensor:
        ctx.function, ctx.rng = function, torch.get_rng_state()
        ctx.save_for_backward(*inputs)
        return function(*inputs)  # autograd looks away inside of a Function's forward

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with _random(ctx.rng), torch.enable_grad():
            result = ctx.function(*inputs)
        torch.autograd.backward(result, gradients)
        return None, *(x.grad for x in inputs)


def again_whole(function: Function, *inputs: Tensor) -> Tensor:
    """`function(*inputs)`, run without a graph and in backward once more with one, to its end.

    An input must want a gradient, or the node is not there; its weights' gradients are added
    from inside.

    Chapter: activations (eq-again)
    """
    return Whole.apply(function, *inputs)


def plain(function: Function, x: Tensor) -> Tensor:
    """No recomputation."""
    return function(x)


def loss(
    model: nn.Module,
    tokens: Tensor,
    targets: Tensor,
    *,
    wrap: Wrap = plain,
    every: int = 1,
) -> Tensor:
    """The loss of a model of this book whose layers are applied through `wrap`, `every` of them
    at once.
    """
    x = embed(model, tokens)
    blocks: list[nn.Module] = list(model.blocks)  # type: ignore[arg-type]
    for start in range(0, len(blocks), every):
        x = wrap(nn.Sequential(*blocks[start : start + every]), x)
    scores = model.head(model.norm(x))  # type: ignore[operator]
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def embed(model: nn.Module, tokens: Tensor) -> Tensor:
    """What goes into the first layer."""
    x = model.tokens(tokens)  # type: ignore[operator]
    return x + model.positions.weight[: tokens.shape[1]] if hasattr(model, "positions") else x  # type: ignore[union-attr, index]
