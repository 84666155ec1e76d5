"""What a device reaches: FLOP/s of matmuls by their size, bytes/s of streams by theirs.

A rate is that of the quickest of several repeats, which take turns: what disturbs a run only ever
makes it longer. On a CPU seconds are the processor's own, which stand still while others have it;
so measure on one thread.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from mathlib.meters.clock import interleaved_seconds

Shape = tuple[int, int, int]  # rows, inner, columns


def waiter(device: str | torch.device) -> Callable[[], object]:
    """What waits until a device has done all it was given; a CPU has nothing left to do."""
    cuda = torch.device(device).type == "cuda"
    return partial(torch.cuda.synchronize, device) if cuda else lambda: None


def _seconds(device: str, repeat: int, *actions: Callable[[], object]) -> list[float]:
    """The quickest time of each action."""
    clock = time.process_time if torch.device(device).type == "cpu" else time.perf_counter
    return interleaved_seconds(*actions, repeat=repeat, pick=min, clock=clock)


def matmul_rates(
    shapes: Sequence[Shape],
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    repeat: int = 9,
) -> list[float]:
    """FLOP/s of r x i times i x o, for each of the shapes (r, i, o)."""
    finish = waiter(device)

    def matmul(r: int, i: int, o: int) -> Callable[[], None]:
        x = torch.randn(r, i, device=device).to(dtype)
        w = torch.randn(i, o, device=device).to(dtype)
        y = torch.empty(r, o, device=device, dtype=dtype)

        def multiply() -> None:
            torch.mm(x, w, out=y)
            finish()

        return multiply

    times = _seconds(device, repeat, *(matmul(*shape) for shape in shapes))
    return [2 * r * i * o / t for (r, i, o), t in zip(shapes, times, strict=True)]


def stream_rates(
    sizes: Sequence[int],
    *,
    in_place: bool = False,
    device: str = "cpu",
    repeat: int = 9,
    enough: int = 2**24,
) -> list[float]:
    """Bytes/s that y = -x moves, read and written together, for tensors x of so many bytes.

    A short one is done again until `enough` bytes were moved, so that it stays in a cache if it
    fits in one. `in_place`: x = -x writes where it has read. A processor fetches a line of
    memory before it changes a part of it, so that in the other case three bytes move for two.
    """
    finish = waiter(device)

    def stream(size: int) -> tuple[Callable[[], None], int]:
        x = torch.ones(max(1, size // 4), device=device)
        y, again = x if in_place else torch.empty_like(x), max(1, enough // (2 * size))
        return (lambda: _stream(x, y, again, finish)), 2 * 4 * x.numel() * again

    actions = [stream(size) for size in sizes]
    times = _seconds(device, repeat, *(one for one, _ in actions))
    return [moved / t for (_, moved), t in zip(actions, times, strict=True)]


def _stream(x: Tensor, y: Tensor, again: int, finish: Callable[[], object]) -> None:
    for _ in range(again):
        torch.mul(x, -1, out=y)
    finish()


def launch_seconds(*, device: str = "cpu", many: int = 500, repeat: int = 9) -> float:
    """Seconds of a kernel that has nothing to do, PyTorch's call included: one number changes its
    sign, many times.
    """
    x, finish = torch.ones(1, device=device), waiter(device)
    y = torch.empty_like(x)
    (t,) = _seconds(device, repeat, lambda: _stream(x, y, many, finish))
    return t / many
