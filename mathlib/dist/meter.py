"""What a real step does, counted: FLOP by part, bytes saved for backward, bytes alive over time by kind.

FLOP are those of matrix products (2 m n k each), as in the formulas.  Bytes are those of tensor storages, each storage
once however many views it has.  Neither sees what a kernel allocates inside itself.
"""

import statistics
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from mathlib.dist.gpt import GPT
from mathlib.specs import Model

LINEAR = {"qkv": "attention projections", "out": "attention projections", "up": "mlp", "down": "mlp", "head": "vocabulary"}


PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")


def _flash_forward(q, k, v, *_, **__):  # type: ignore[no-untyped-def]
    return sdpa_flop_count(q, k, v)


def _flash_backward(grad, q, k, v, *_, **__):  # type: ignore[no-untyped-def]
    return sdpa_backward_flop_count(grad, q, k, v)


# torch's counter knows flash attention on CUDA only; without these two the CPU kernel counts as nothing.
CPU_FLASH = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _flash_forward,
             torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _flash_backward}


def _by_part(counter: FlopCounterMode) -> Counter[str]:
    """The counter's totals folded into the parts the formula names: linear layers by module, attention's core by kernel.

    Recomputation runs inside another module's backward, so a module's total would hold products that are not its own.
    """
    parts: Counter[str] = Counter()
    for module, kernels in counter.get_flop_counts().items():
        for kernel, flop in kernels.items():
            linear = str(kernel) in ("aten.mm", "aten.addmm")
            if module == "Global":
                parts["other" if linear else "attention core"] += flop
            elif linear and (name := module.rpartition(".")[2]) in LINEAR:
                parts[LINEAR[name]] += flop
                parts["other"] -= flop
    return parts


def flop(forward: Callable[[], Tensor]) -> tuple[Counter[str], Counter[str]]:
    """FLOP of one forward and of its backward, each by part; recomputation falls into the backward."""
    with FlopCounterMode(display=False, custom_mapping=CPU_FLASH) as counter, set_checkpoint_early_stop(False):
        loss = forward()
        ahead = _by_part(counter)
        loss.backward()
        both = _by_part(counter)
    both.subtract(ahead)
    return +ahead, +both  # + drops what is zero


def dry_run(
    model: Model, sequences: int = 1, attention: str = "plain", recompute: str = "none"
) -> tuple[Counter[str], Counter[str]]:
    """FLOP of a training step of any size: the program runs on torch's meta device, on shapes without numbers."""
    with torch.device("meta"):
        gpt = GPT(model, attention, recompute)
        tokens = torch.empty(sequences, model.context, dtype=torch.long)
        return flop(lambda: gpt.loss(tokens, tokens))


class _OtherNumbers(TorchDispatchMode):
    """Sums the sizes of what kernels write that multiply no matrices; a view writes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        if not (function.is_view or str(function.overloadpacket) in PRODUCTS):
            self.written += sum(leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        return result


def other_numbers(model: Model) -> tuple[int, int]:
    """Numbers written by everything but products in a forward pass of one sequence, and the FLOP of its products."""
    with torch.device("meta"):
        gpt, tokens = GPT(model), torch.empty(1, model.context, dtype=torch.long)
        with torch.no_grad(), _OtherNumbers() as others, FlopCounterMode(display=False) as counter:
            gpt.loss(tokens, tokens)
    return others.written, counter.get_total_flops()


def saved_bytes(forward: Callable[[], Tensor], model: nn.Module) -> int:
    """Bytes that autograd keeps between forward and backward, parameters left out."""
    kept: dict[int, int] = {}
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    hold = []  # a freed storage's address may come again within one forward

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
            hold.append(storage)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = forward()
    del loss
    return sum(kept.values())


@dataclass
class Timeline:
    """Bytes alive after every allocation and release of a step, by kind; draw it with mathlib.show."""

    kinds: tuple[str, ...] = ("weights", "gradients", "optimizer", "activations", "temporary")
    rows: list[dict[str, int]] = field(default_factory=list)  # bytes by kind, one row an event
    marks: list[tuple[int, str]] = field(default_factory=list)  # (row at which a phase ended, its name)

    def total(self, row: int) -> int:
        return sum(self.rows[row].values())

    @property
    def peak(self) -> int:
        """The row in which the most bytes are alive."""
        return max(range(len(self.rows)), key=self.total)

    def phase(self, row: int) -> str:
        return next(name for end, name in self.marks if row < end)

    def first_beyond(self, limit: float) -> str:
        """Where a device of `limit` bytes would give up: "backward of step 2"; empty if it never does."""
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
    """Follows every storage from its first appearance to its release; kinds are settled when the run is over."""

    def __init__(self) -> None:
        super().__init__()
        self.serial: dict[int, int] = {}  # live storage -> its number; addresses come again, numbers do not
        self.size: dict[int, int] = {}
        self.kind: dict[int, str] = {}
        self.events: list[tuple[int, int]] = []  # (+1 or -1, number)
        self.marks: list[tuple[int, str]] = []
        self._hooks = saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def follow(self, tensor: Tensor, kind: str | None = None) -> None:
        """Note a tensor's storage as alive; a kind, once given by name, stays."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.serial:
            number = len(self.size)
            self.serial[key], self.size[number] = number, storage.nbytes()
            self.events.append((+1, number))
            weakref.finalize(storage, self._released, key)
        if kind:
            self.kind.setdefault(self.serial[key], kind)

    def _released(self, key: int) -> None:
        self.events.append((-1, self.serial.pop(key)))

    def _pack(self, tensor: Tensor) -> Tensor:
        self.follow(tensor, "activations")
        return tensor

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
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
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._hooks.__exit__(*error)

    def timeline(self) -> Timeline:
        line = Timeline(marks=self.marks)
        alive = dict.fromkeys(line.kinds, 0)
        for sign, number in self.events:
            alive[self.kind.get(number, "temporary")] += sign * self.size[number]
            line.rows.append(dict(alive))
        return line


@contextmanager
def live(model: nn.Module) -> Iterator[LiveMeter]:
    """Watch a model's bytes: its weights from the start, its gradients as they are accumulated."""
    meter = LiveMeter()
    with torch.no_grad():
        for parameter in model.parameters():
            meter.follow(parameter, "weights")
    handles = [p.register_post_accumulate_grad_hook(lambda p: meter.follow(p.grad, "gradients"))
               for p in model.parameters() if p.requires_grad]
    with meter:
        yield meter
    for handle in handles:
        handle.remove()


def step_timeline(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], optimizer: torch.optim.Optimizer) -> Timeline:
    """Whole training steps, watched: forward, backward, optimizer step, gradients dropped; a mark after each."""
    with live(model) as meter:
        for tokens, targets in batches:
            loss = model.loss(tokens, targets)  # type: ignore[operator]
            meter.mark("forward")
            loss.backward()
            meter.mark("backward")
            optimizer.step()
            for tensor in tree_leaves(list(optimizer.state.values())):
                if isinstance(tensor, Tensor):
                    meter.follow(tensor, "optimizer")
            meter.mark("step")
            optimizer.zero_grad()
            del loss, tokens, targets
            meter.mark("zero_grad")
    return meter.timeline()


def tensor_bytes(things: object) -> int:
    """Bytes of all tensors in a nest of lists and dictionaries, each storage once."""
    tensors = [leaf for leaf in tree_leaves(things) if isinstance(leaf, Tensor)]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def median_seconds(action: Callable[[], object], repeat: int = 5) -> float:
    """Median wall time of an action, after one call to warm up."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
