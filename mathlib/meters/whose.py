"""Whose an allocation or a message is: the part of the model whose forward runs, and what a
collective is called for.

A part is named as the model names it, layers put together: layers.0.mlp.up_proj and
layers.1.mlp.down_proj both belong to mlp.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from types import FrameType

import torch
from torch import nn

WEIGHTS, GRADIENTS, BUFFERS = "of weights", "of gradients", "of buffers"
ENGINE = ("autograd", "graph.py")  # what calls the backward, and through it torch's own DDP
HERE = PurePath(__file__).parts[:-1]
DDP = ("nn", "parallel", "distributed.py")
WRAPPERS = {"_dynamo", "_compile.py"}


def part_of(name: str) -> str:
    """The part that a module of this name belongs to: what stands after a layer's number."""
    words = [word for word in name.split(".") if word != "module"]  # DDP's own
    inside = [i + 1 for i, word in enumerate(words) if word.isdigit()]
    if inside and inside[0] < len(words):
        return words[inside[0]]
    return next((word for word in reversed(words) if not word.isdigit()), "")


@contextmanager
def running(
    model: nn.Module, enters: Callable[[nn.Module, str], object] = lambda module, part: None
) -> Iterator[Callable[[], str]]:
    """Tells which part's forward runs, nothing outside; `enters` hears of each module before it
    runs."""
    names: list[str] = []

    def enter(module: nn.Module, part: str) -> None:
        names.append(part)
        enters(module, part)

    handles = []
    for name, module in model.named_modules():
        part = part_of(name) or type(model).__name__
        handles += [
            module.register_forward_pre_hook(lambda m, _, part=part: enter(m, part)),
            module.register_forward_hook(lambda *_: names.pop() and None, always_call=True),
        ]
    try:
        yield lambda: names[-1] if names else ""
    finally:  # a step may fail, and the model is somebody else's
        for handle in handles:
            handle.remove()


def purpose(collective: str) -> str:
    """What a collective is called for, by who calls it: weights and gradients of torch's FSDP and
    DDP, and DDP's buffers. Of a call of your own only whether that is in the backward.
    """
    backward = torch._C._current_graph_task_id() != -1
    callers = list(_callers())
    if any("fsdp" in place and "torch" in place for place in callers):
        when = "backward" if backward else "forward"
        return f"{WEIGHTS}, {when}" if "gather" in collective else GRADIENTS
    if backward and callers[0][-2:] == ENGINE:  # no Python between: torch's DDP
        return GRADIENTS
    if any(place[-3:] == DDP for place in callers):
        return BUFFERS
    return "in the backward" if backward else "elsewhere"


def _callers() -> Iterator[tuple[str, ...]]:
    """Files of the frames above, from the one that called the collective; torch's wrappers of the
    counting itself are none.
    """
    frame: FrameType | None = sys._getframe()
    above = False
    while frame is not None and (frame := frame.f_back) is not None:
        place = PurePath(frame.f_code.co_filename).parts
        above = above or not (place[:-1] == HERE or set(place) & WRAPPERS)
        if above:
            yield place
