"""Time candidates in turn: round after round, each once."""

import statistics
import time
from collections.abc import Callable


def medians(candidates: dict[str, Callable[[], object]], rounds: int, warm_up: int = 2) -> dict[str, float]:
    """Seconds of each candidate on the ranks of the default group: of the slowest, the median over the rounds."""
    import torch
    import torch.distributed as dist

    names = list(candidates)
    times = torch.zeros(rounds, len(names), dtype=torch.float64)
    for number in range(-warm_up, rounds):
        for place in range(len(names)):
            place = (place + number) % len(names)  # nobody always comes after the same one
            dist.barrier()
            begin = time.perf_counter()
            candidates[names[place]]()
            if number >= 0:
                times[number, place] = time.perf_counter() - begin
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return dict(zip(names, times.median(0).values.tolist(), strict=True))


def alone(candidates: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Medians of candidates that time themselves, in turn, in this process."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            times[name].append(candidate())
    return {name: statistics.median(found) for name, found in times.items()}


def row(what: str, seconds: dict[str, float], ours: str, theirs: str, **facts: float) -> dict:
    """One comparison: ratio = their time / our time."""
    mine, other = (round(seconds[name], 7) for name in (ours, theirs))
    return {"what": what, "ours": ours, "ours_seconds": mine, "theirs": theirs, "theirs_seconds": other,
            "ratio": round(other / mine, 3), **facts}
