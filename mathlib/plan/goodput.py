"""How much of a run's time is training: checkpoints take some, failures and what they destroy more.

K payload, the bytes of a checkpoint · N ranks that write it · W bandwidth of each, bytes per second
T time in seconds of training without saves and failures
Failures come by chance (Poisson), however long ago the last one was. All times are in seconds, and
concern the whole job: if one device fails every F seconds, n of them fail every F/n.
"""

import math

from mathlib.checks import InputError, non_negative, one_of, positive, whole
from mathlib.parts import Parts


def write_time(
    *, payload: float, ranks: int, bandwidth: float, storage_bandwidth: float = 0.0
) -> float:
    """Seconds to write a sharded checkpoint: K / (N W), or as slowly as the storage
    takes it.

    storage_bandwidth: of the storage as a whole; 0 if it takes what comes. Where one
    rank writes all, as without sharding, N is 1.

    Chapter: mics
    """
    K, N, W = (
        non_negative("payload", payload),
        whole("ranks", ranks),
        positive("bandwidth", bandwidth),
    )
    limit = non_negative("storage_bandwidth", storage_bandwidth) or math.inf
    return K / min(N * W, limit)


def interval(
    *,
    time_per_save: float,
    time_between_failures: float,
    method: str = "young",
) -> float:
    """Seconds of training between saves that waste least: sqrt(2 save failures) (Young
    1974).

    "daly", for saves that are not short: sqrt(2 save failures) (1 + x/3 + x^2/9) -
    save, with x = sqrt(save / (2 failures)), and the time between failures where a save
    takes twice as long as that or longer (Daly 2006, doi:10.1016/j.future.2004.11.016).

    Chapter: mics
    """
    save = positive("time_per_save", time_per_save)
    failures = positive("time_between_failures", time_between_failures)
    first = math.sqrt(2 * save * failures)
    if one_of("method", method, ("young", "daly")) == "young":
        return first
    x = math.sqrt(save / (2 * failures))
    return first * (1 + x / 3 + x * x / 9) - save if x < 1 else failures


def time_for(
    *,
    seconds: float,
    time_between_saves: float,
    time_per_save: float,
    time_between_failures: float,
    time_per_failure: float = 0.0,
    time_behind: float = 0.0,
) -> Parts:
    """Expected time of a run, for each second of training F e^(R/F) (e^((s+d)/F) - 1) /
    s (Daly 2006).

    F between failures, R until training goes on after one, s between saves, d of a
    save. An asynchronous save stops training only for the copy, its d, and is safe
    `time_behind` later. That costs as much as if R were so much longer: a failure in
    that time destroys a save's work.

    Chapter: mics
    """
    T, between = (
        positive("seconds", seconds),
        positive("time_between_saves", time_between_saves),
    )
    save, restart = (
        non_negative("time_per_save", time_per_save),
        non_negative("time_per_failure", time_per_failure),
    )
    failures = positive("time_between_failures", time_between_failures)
    behind = non_negative("time_behind", time_behind)
    if behind > between:
        raise InputError(
            f"time_behind = {behind:g}: expected at most time_between_saves = "
            f"{between:g}, as one save is written at a time"
        )
    most = restart + behind + between + save
    if most > 100 * failures:  # e^100: no run ends
        raise InputError(
            f"time_between_failures = {failures:g}: expected more than a hundredth of "
            f"what passes from one save to the next and after a failure, {most:g}"
        )
    attempts = math.exp((restart + behind) / failures)
    attempts *= math.expm1((between + save) / failures)
    parts = {"compute": T, "saving": T * save / between}
    lost = T * failures * attempts / between - sum(parts.values())
    parts["waiting after failures"] = max(lost, 0.0)
    return Parts("Expected time of a run that saves and fails", "second", parts)
