"""Bytes alive over a training step, by kind: every allocation and release of a tensor's storage, in
order.

What a kernel allocates inside itself is not seen.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass
class Timeline:
    """Bytes alive after every allocation and release of a step, by kind; draw it with
    mathlib.show.
    """

    kinds: tuple[str, ...] = ("weights", "gradients", "optimizer", "activations", "temporary")
    rows: list[dict[str, int]] = field(default_factory=list)  # bytes by kind, one row an event
    marks: list[tuple[int, str]] = field(
        default_factory=list
    )  # (row at which a phase ended, its name)

    def total(self, row: int) -> int:
        return sum(self.rows[row].values())

    @property
    def peak(self) -> int:
        """The row in which the most bytes are alive."""
        return max(range(len(self.rows)), key=self.total)

    def phase(self, row: int) -> str:
        return next(name for end, name in self.marks if row < end)

    def first_beyond(self, limit: float) -> str:
        """Where a device of `limit` bytes would give up: "backward of step 2"; empty if it never
        does.
        """
        row = next((row for row in range(len(self.rows)) if self.total(row) > limit), None)
        if row is None:
            return ""
        name = self.phase(row)
        return f"{name} of step {1 + sum(end <= row and mark == name for end, mark in self.marks)}"

    def steps(self) -> list[tuple[int, int]]:
        """First row and end of each step."""
        ends = [end for end, name in self.marks if name == self.marks[-1][1]]
        return list(zip([0, *ends], ends, strict=False))

    def at(self, name: str, occurrence: int = 0) -> dict[str, int]:
        """Bytes by kind at the end of a phase, the first of that name or a later one."""
        return self.rows[[end for end, mark in self.marks if mark == name][occurrence] - 1]


class LiveMeter(TorchDispatchMode):
    """Follows every storage from its first appearance to its release; kinds are settled when the
    run is over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.serial: dict[
            int, int
        ] = {}  # live storage -> its number; addresses come again, numbers do not
        self.size: dict[int, int] = {}
        self.kind: dict[int, str] = {}
        self.part: dict[int, str] = {}  # whose a storage was when autograd first kept it
        self.whose: Callable[[], str] = str
        self.device: torch.device | None = None  # of the first storage: others are not its memory
        self.events: list[tuple[int, int]] = []  # (bytes more or less, number)
        self.marks: list[tuple[int, str]] = []
        self._hooks = saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def follow(self, tensor: Tensor, kind: str | None = None) -> None:
        """Note a tensor's storage as alive, of a sharded one its own rows; a kind, once given by
        name, stays.
        """
        storage = own_rows(tensor).untyped_storage()
        key = storage._cdata
        self.device = self.device or storage.device
        if storage.device != self.device:
            return
        if key not in self.serial:
            number = len(self.size)
            self.serial[key], self.size[number] = number, storage.nbytes()
            self.events.append((self.size[number], number))
            weakref.finalize(storage, self._released, key)
        if kind:
            self.kind.setdefault(self.serial[key], kind)

    def follow_states(self, optimizer: torch.optim.Optimizer) -> None:
        """Watch the tensors that an optimizer keeps."""
        for tensor in tree_leaves(list(optimizer.state.values())):
            if isinstance(tensor, Tensor):
                self.follow(tensor, "optimizer")

    def _released(self, key: int) -> None:
        number = self.serial.pop(key)
        self.events.append((-self.size[number], number))

    def _resized(self, storage: torch.UntypedStorage, size: int) -> None:
        """A storage that stays, while its bytes come and go: what sharding does to a row."""
        self._resize(storage, size)
        number = self.serial.get(storage._cdata)
        if number is not None and size != self.size[number]:
            self.events.append((size - self.size[number], number))
            self.size[number] = size

    def _pack(self, tensor: Tensor) -> Tensor:
        self.follow(tensor, "activations")
        number = self.serial.get(own_rows(tensor).untyped_storage()._cdata)
        if number is not None:
            self.part.setdefault(number, self.whose())
        return tensor

    # type: ignore[no-untyped-def]
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.follow(leaf)
        return result

    def mark(self, name: str) -> None:
        """End of a phase."""
        self.marks.append((len(self.events), name))

    def __enter__(self) -> "LiveMeter":
        self._hooks.__enter__()
        # a storage's own method, which no dispatch mode sees
        self._resize: Any = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = lambda storage, size: self._resized(storage, size)  # type: ignore
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        self._hooks.__exit__(*error)

    def by_part(self) -> Counter[str]:
        """Activations by part, at the moment at which they are the most."""
        now, most, size = Counter[str](), Counter[str](), 0
        for change, number in self.events:
            if self.kind.get(number) == "activations":
                now[self.part.get(number, "")] += change
                if now.total() > size:
                    most, size = Counter(now), now.total()
        return +most

    def timeline(self) -> Timeline:
        line = Timeline(marks=self.marks)
        alive = dict.fromkeys(line.kinds, 0)
        for change, number in self.events:
            alive[self.kind.get(number, "temporary")] += change
            line.rows.append(dict(alive))
        return line


def own_rows(tensor: Tensor) -> Tensor:
    """Of a sharded tensor what this rank has of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@contextmanager
def live(model: nn.Module) -> Iterator[LiveMeter]:
    """Watch a model's bytes: its weights from the start, its gradients as they are accumulated."""
    meter = LiveMeter()
    with torch.no_grad():
        for parameter in model.parameters():
            meter.follow(parameter, "weights")

    def arrived(p: nn.Parameter) -> None:
        if p.grad is not None:  # another hook may have taken it away
            meter.follow(p.grad, "gradients")

    handles = [
        p.register_post_accumulate_grad_hook(arrived) for p in model.parameters() if p.requires_grad
    ]
    with meter:
        yield meter
    for handle in handles:
        handle.remove()


def held_bytes(forward: Callable[[], Tensor], model: nn.Module, *given: Tensor) -> int:
    """Bytes that a forward leaves alive for its backward, however they are held; weights, what was
    `given` and the loss itself left out.

    On ranks the least of three forwards: gloo's threads let go of what they have sent a moment
    after the message, which can only add bytes.
    """
    tries = 3 if dist.is_initialized() else 1
    return min(_held_once(forward, model, *given) for _ in range(tries))


def _held_once(forward: Callable[[], Tensor], model: nn.Module, *given: Tensor) -> int:
    with live(model) as meter:
        for tensor in given:
            meter.follow(tensor, "temporary")
        before = sum(change for change, _ in meter.events)
        loss = forward()
        after = sum(change for change, _ in meter.events)
    return after - before - loss.nbytes


def step_timeline(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    accumulation: int = 1,
    autocast: torch.dtype | None = None,
) -> Timeline:
    """Whole training steps, watched: forward, backward, optimizer step, gradients dropped; a mark
    after each.

    A step takes `accumulation` batches one after the other; `autocast` names the type of matmuls.
    """
    with live(model) as meter:
        meter.follow_states(optimizer)  # a resumed run has them from the start
        numbers = count(1)  # enumerate would hold on to a batch
        for tokens, targets in batches:
            with torch.autocast(tokens.device.type, autocast) if autocast else nullcontext():
                loss = model.loss(tokens, targets)  # type: ignore[operator]
            meter.mark("forward")
            loss.backward()
            meter.mark("backward")
            del loss, tokens, targets
            if next(numbers) % accumulation == 0:
                _update(meter, optimizer)
    return meter.timeline()


def _update(meter: LiveMeter, optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()
    meter.follow_states(optimizer)
    meter.mark("step")
    optimizer.zero_grad()
    meter.mark("zero_grad")
