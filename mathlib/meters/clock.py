"""Wall time, measured so that a busy machine changes it as little as possible."""

import math
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist


def interleaved_seconds(
    *actions: Callable[[], object],
    repeat: int = 5,
    pick: Callable[[list[float]], float] = statistics.median,
    clock: Callable[[], float] | None = None,
) -> list[float]:
    """Median wall time of each action, or what else `pick` and `clock` take; they take turns, so
    that a busy moment of the machine hits them alike.
    """
    now = clock or time.perf_counter
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repeat + 1):
        for action, measured in zip(actions, times, strict=True):
            start = now()
            action()
            measured.append(now() - start)
    return [pick(measured[1:]) for measured in times]  # the first one warms up


def slowest_rank_seconds(
    action: Callable[..., object], *args: object, repeat: int = 3, enough: float = 0.0
) -> float:
    """Time of action(*args): best of up to `repeat` after a first, from a barrier until the last
    rank is through.

    The best, since what disturbs a run only ever adds; for the same reason it may stop at a time of
    at most `enough`.
    """
    action(*args)
    best = math.inf
    for _ in range(repeat):
        dist.barrier()
        start = time.perf_counter()
        action(*args)
        last = torch.tensor(time.perf_counter() - start)
        dist.all_reduce(last, dist.ReduceOp.MAX)
        best = min(best, last.item())
        if best <= enough:
            break
    return best
