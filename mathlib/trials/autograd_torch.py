"""PyTorch's autograd, asked: which nodes a run makes and which it shares, what backward adds to
them, what they keep, and where its gradients fail.
"""

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mathlib.meters import saved
from mathlib.trials.autograd import Branch, nodes_behind


def leaf(value: float = 3.0) -> Any:
    return torch.tensor(value, requires_grad=True)


# Where its table has to choose, or fails

RECTIFIERS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu(x)": torch.relu,
    "clamp(x, min=0)": lambda x: x.clamp(min=0),
    "maximum(x, 0)": lambda x: torch.maximum(x, torch.zeros(())),
}


def slopes_at_zero(f: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """The slope of f at 0, and that of f(x) - f(-x), which for max(x, 0) is x."""

    def slope(g: Callable[[Tensor], Tensor]) -> float:
        x = leaf(0.0)
        g(x).backward()
        return x.grad.item()

    return slope(f), slope(lambda x: f(x) - f(-x))


def refusal(loss: Tensor) -> str:
    """What PyTorch says when it is to go back from this loss; nothing if it does."""
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error)
    return ""


def changed_in_place() -> Tensor:
    result = leaf().exp()  # its VJP reads the result
    result += 1
    return result


def overflowing_branch() -> tuple[float, float]:
    """The value and the gradient of where(x < 50, exp(x), x) at 100."""
    x = leaf(100.0)
    chosen = torch.where(x < 50, x.exp(), x)
    chosen.backward()
    return chosen.item(), x.grad.item()


# One graph for each run


def in_common() -> tuple[int, int, int]:
    """Nodes of one run, those that a second run has too, and how many of these are leaves'."""
    model, x = Branch(), torch.ones(2, 3)
    one, other = (set(nodes_behind(out)) for out in [model(x), model(x)])
    both = one & other
    return len(one), len(both), sum(hasattr(node, "variable") for node in both)


def sizes() -> tuple[int, int]:
    """Nodes with the second layer and without it."""
    model, x = Branch(), torch.ones(2, 3)
    return len(nodes_behind(model(x))), len(nodes_behind(model(x, deep=False)))


def carried_over(detach: bool) -> bool:
    """Whether an operation's node serves two iterations if the second goes on from the first."""
    w, h, graphs = leaf(), torch.tensor(1.0), []
    for _ in range(2):
        h = (h.detach() if detach else h) * w
        loss = h * h
        graphs.append(set(nodes_behind(loss)))
        loss.backward(retain_graph=True)
    return any(not hasattr(node, "variable") for node in graphs[0] & graphs[1])


def left_in_grad(passes: int = 1, retain: bool = False) -> dict[str, float | None]:
    """What backward leaves in .grad after (2 x)^2 at x = 3."""
    start, unused, two = leaf(), leaf(), torch.tensor(2.0)
    middle = two * start
    if retain:
        middle.retain_grad()
    for _ in range(passes):
        (middle * middle).backward(retain_graph=True)
    tensors = {"leaf": start, "unused leaf": unused, "middle": middle, "data": two}
    with warnings.catch_warnings(action="ignore"):  # PyTorch warns whoever asks for it
        return {name: t.grad.item() if t.grad is not None else None for name, t in tensors.items()}


# Who makes nodes


def next_number() -> int:
    """Of this thread's nodes; backward on the CPU runs on it, too."""
    return leaf().exp().grad_fn._sequence_nr()


def nodes_made(forward: Callable[[], Tensor], **how: bool) -> tuple[int, int]:
    """Nodes of operations that forward makes, and that backward does."""
    start = next_number()
    out = forward()
    turn = next_number()
    with warnings.catch_warnings(action="ignore"):  # of a cycle, which ends with this function
        out.backward(**how)
    return turn - start - 1, next_number() - turn - 1


def made_by_backward() -> dict[str, int]:
    """Nodes that backward adds: as it is, to be differentiated, and with both checkpoints."""
    model, x = Branch(), torch.ones(2, 3, requires_grad=True)
    return {
        "plain": nodes_made(lambda: model(x))[1],
        "create_graph": nodes_made(lambda: model(x), create_graph=True)[1],
        "reentrant": nodes_made(lambda: checkpoint(model, x, use_reentrant=True))[1],
        "not reentrant": nodes_made(lambda: checkpoint(model, x, use_reentrant=False))[1],
    }


def run_by_backward() -> tuple[int, int, bool]:
    """Nodes that stand behind a loss before backward, those of leaves among them, and whether
    backward runs each of them once and no other.
    """
    out, ran = Branch()(torch.ones(2, 3)), []
    there = nodes_behind(out)
    for node in there:
        node.register_prehook(lambda _, node=node: ran.append(node))
    out.backward()
    once = len(ran) == len(there) and set(ran) == set(there)
    return len(there), sum(hasattr(node, "variable") for node in there), once


# What the graph keeps


def behind(make: Callable[[Tensor], Tensor]) -> list[str]:
    """The kinds of nodes behind what this makes of a leaf."""
    out = make(torch.full((2, 3), 2.0, requires_grad=True))
    return [type(node).__name__.removesuffix("0") for node in nodes_behind(out)]


WITHOUT_NODE: dict[str, Callable[[Tensor], Tensor]] = {
    "a comparison": lambda x: x * (x > 0),
    "argmax": lambda x: x * x.argmax(),
    "a conversion to integers": lambda x: x * x.long(),
}


def middle_outlives_its_name() -> bool:
    """Whether the 2 x of 2 x + 1 is still there when only the graph could hold it."""
    doubled = leaf() * 2
    middle, result = weakref.ref(doubled), doubled + 1
    del doubled
    return result.requires_grad and middle() is not None


def kept_for(function: Callable[[Tensor], Tensor]) -> int:
    """Bytes that an operation on six 32-bit numbers saves."""
    x = torch.full((2, 3), 2.0, requires_grad=True)
    return saved.saved_bytes(lambda: function(x), nn.Identity())


# Recomputed blocks above data


def trained(**how: Any) -> int:
    """How many of three recomputed blocks get a gradient if the input is data."""
    blocks, head, x = [nn.Linear(3, 3) for _ in range(3)], nn.Linear(3, 1), torch.ones(2, 3)
    with warnings.catch_warnings(action="ignore"):
        for block in blocks:
            x = checkpoint(block, x, **how)
    head(x).sum().backward()
    return sum(block.weight.grad is not None for block in blocks)
