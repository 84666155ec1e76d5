"""The order of a backward pass: when each tensor that was saved for it dies, and when each gradient
is there.

Saved tensors count by their storage, once however many look at it; parameters are left out. What
torch's checkpoint makes again in backward is heard as well.
"""

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

from torch import Tensor, nn
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.utils import checkpoint

ELSEWHERE = "loss"  # what runs outside of all parts
_SECOND_RUN = checkpoint._recomputation_hook


@dataclass(frozen=True)
class Event:
    """Something that happened to a part of the network."""

    what: str  # "saved", "released", "turn" (backward begins), "gradient" (of a parameter),
    # "share" (of the gradient of a parameter that is used more than once)
    part: str
    size: int = 0  # bytes
    name: str = ""  # the parameter's


class _Held:
    """What autograd keeps in a tensor's stead, for as long as it would have kept the tensor."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


class _Recorder:
    """Writes down what is saved by whom, and when it goes."""

    def __init__(self, model: nn.Module):
        self.events: list[Event] = []
        self.inside = [ELSEWHERE]  # the parts that run now, the innermost last
        self.holders: Counter[int] = Counter()  # of a storage
        self.weights = {p.untyped_storage()._cdata for p in model.parameters()}
        self.parameters: dict[Tensor, tuple[str, str]] = {}  # part and name

    def pack(self, tensor: Tensor) -> _Held:
        held = _Held(tensor)
        self.keep(tensor, held)
        return held

    def keep(self, tensor: Tensor, holder: object) -> None:
        """A tensor is saved, for as long as its holder lives."""
        storage = tensor.untyped_storage()
        key, part = storage._cdata, self.inside[-1]
        if key not in self.weights:
            if not self.holders[key]:
                self.events.append(Event("saved", part, storage.nbytes()))
            self.holders[key] += 1
            weakref.finalize(holder, self.let_go, key, part, storage.nbytes())

    def second_run(self, *of: Any) -> saved_tensors_hooks:
        """The hooks that checkpoint puts in place of ours for its second run; they tell us, too."""
        hooks = _SECOND_RUN(*of)
        store = hooks.pack_hook

        def pack(tensor: Tensor) -> object:
            kept = tensor.detach()  # what checkpoint stores when it needs no gradient
            self.keep(kept, kept)
            return store(kept)

        hooks.pack_hook = pack
        return hooks

    def let_go(self, key: int, part: str, size: int) -> None:
        self.holders[key] -= 1
        if not self.holders[key]:
            self.events.append(Event("released", part, size))

    def enter(self, part: str, *_: object) -> None:
        self.inside.append(part)

    def leave(self, *_: object) -> None:
        self.inside.pop()

    def arrived(self, what: str, parameter: Tensor, *_: object) -> None:
        part, name = self.parameters[parameter]
        self.events.append(Event(what, part, parameter.untyped_storage().nbytes(), name))

    def hear_shares(self, loss: Tensor) -> None:
        """Listen to the nodes that hand a gradient to a parameter, where it has several."""
        handed: dict[Tensor, list[Node]] = defaultdict(list)
        todo = [loss.grad_fn] if loss.grad_fn else []
        found = set(todo)
        while todo:
            node = todo.pop()
            for below, _ in node.next_functions:
                leaf = getattr(below, "variable", None)
                if leaf is not None:
                    handed[leaf].append(node)
                elif below and below not in found:
                    found.add(below)
                    todo.append(below)
        for parameter, nodes in handed.items():
            if len(nodes) > 1 and parameter in self.parameters:
                for node in nodes:
                    node.register_hook(partial(self.arrived, "share", parameter))


@contextmanager
def _hooked(
    recorder: _Recorder, model: nn.Module, parts: Mapping[str, Sequence[nn.Module]]
) -> Iterator[None]:
    """Hooks on every part, on every parameter, and on every tensor that is saved."""
    part_of: dict[Tensor, str] = {}
    with ExitStack() as hooks:
        for part, module in [(part, one) for part, several in parts.items() for one in several]:
            enter = module.register_forward_pre_hook(partial(recorder.enter, part))
            # always: checkpoint stops a second run when it has what it needs
            leave = module.register_forward_hook(recorder.leave, always_call=True)
            hooks.callback(enter.remove)
            hooks.callback(leave.remove)
            for parameter in module.parameters():
                part_of.setdefault(parameter, part)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                recorder.parameters[parameter] = part_of.get(parameter, ELSEWHERE), name
                told = partial(recorder.arrived, "gradient")
                hooks.callback(parameter.register_post_accumulate_grad_hook(told).remove)
        hooks.enter_context(saved_tensors_hooks(recorder.pack, lambda held: held.tensor))
        again = mock.patch.object(checkpoint, "_recomputation_hook", recorder.second_run)
        hooks.enter_context(again)
        yield


def follow(
    forward: Callable[[], Tensor], model: nn.Module, parts: Mapping[str, Sequence[nn.Module]]
) -> list[Event]:
    """Forward and backward of a real model, and what happens in them, in order. `parts` are modules
    of the model by the names that events give them; a parameter is the first one's that has it.
    """
    recorder = _Recorder(model)
    with _hooked(recorder, model, parts):
        loss = forward()
        recorder.hear_shares(loss)
        recorder.events.append(Event("turn", ELSEWHERE))
        loss.backward()
    return recorder.events
