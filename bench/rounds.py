"""Time candidates in turn: round after round, each once, so that a busy moment of the machine hits
all alike.
"""

import random
import statistics
import time
from collections.abc import Callable

Times = dict[str, list[float]]  # seconds of each candidate in each round


def on_ranks(candidates: dict[str, Callable[[], object]], rounds: int, warm_up: int = 2) -> Times:
    """Candidates that every rank of the default group runs together; a time is that of the slowest
    rank.
    """
    import torch
    import torch.distributed as dist

    names = list(candidates)
    times = torch.zeros(rounds, len(names), dtype=torch.float64)
    for number in range(-warm_up, rounds):
        for place in random.Random(number).sample(
            range(len(names)), len(names)
        ):  # nobody always comes after the same
            dist.barrier()
            begin = time.perf_counter()
            candidates[names[place]]()
            if number >= 0:
                times[number, place] = time.perf_counter() - begin
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return dict(zip(names, times.t().tolist(), strict=True))


def alone(candidates: dict[str, Callable[[], float]], rounds: int) -> Times:
    """Candidates that time themselves, in this process."""
    times: Times = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            times[name].append(candidate())
    return times


def row(what: str, times: Times, ours: str, theirs: str, **facts: float) -> dict:
    """One comparison. Ratio: their time / our time, round by round; its median, and the middle half
    of the rounds.
    """
    ratios = [other / mine for mine, other in zip(times[ours], times[theirs], strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    seconds = {
        f"{who}_seconds": round(statistics.median(times[name]), 7)
        for who, name in (("ours", ours), ("theirs", theirs))
    }
    return {
        "what": what,
        "ours": ours,
        "theirs": theirs,
        **seconds,
        "ratio": round(ratio, 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "rounds": len(ratios),
        **facts,
    }
