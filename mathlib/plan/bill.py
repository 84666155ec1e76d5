"""What one job costs on n devices, in device-time, by what the time goes into.

C FLOP of the job · X FLOP/s of one device · n devices · p pipeline stages · m micro-batches
K gradient bytes

With perfect scaling the bill is C / X for every n; each other part grows with n, or with what n
forces on you.  Each device is taken to have an equal share of every step's sequences.
"""

from mathlib.checks import InputError, non_negative, positive, whole
from mathlib.parts import Parts
from mathlib.traffic import comm


def device_time(
    *,
    flop: float,
    achieved: float,
    devices: int,
    steps: int = 1,
    gradient_bytes: float = 0.0,
    bandwidth: float = 0.0,
    latency: float = 0.0,
    behind: float = 0.0,
    stages: int = 1,
    micro_batches: int = 1,
    time_between_failures: float = 0.0,
    time_per_failure: float = 0.0,
) -> Parts:
    """Device-seconds = C/X + bubble + exposed communication + time lost to failures.

    bubble: (p-1)/m of the computation.  communication: n * steps ring all-reduces of K/p over n/p
    replicas, each hidden behind the share `behind` of its step's computation (backward is two
    thirds).  failures: one for each `time_between_failures` of device-time, and all n devices wait
    `time_per_failure`.

    Chapter: compute
    """
    C, X, n = positive("flop", flop), positive("achieved", achieved), whole("devices", devices)
    p, m = whole("stages", stages), whole("micro_batches", micro_batches)
    K, exchanges = non_negative("gradient_bytes", gradient_bytes), n * whole("steps", steps)
    share = non_negative("behind", behind)
    if share > 1:
        raise InputError(f"behind = {behind!r}: expected a share of the computation, 0 to 1")
    if n % p:
        raise InputError(f"stages = {p}: does not divide devices = {n}")
    parts = {"compute": C / X, "idle in the pipeline": C / X * (p - 1) / m, "communication": 0.0}
    if K:  # else nobody needs to name a bandwidth
        all_reduce = comm.time(
            "all-reduce", payload=K / p, ranks=n // p, bandwidth=bandwidth, latency=latency
        )
        hidden = share * parts["compute"] / exchanges
        parts["communication"] = exchanges * max(0.0, all_reduce.total - hidden)
    between = non_negative("time_between_failures", time_between_failures)
    lost = n * non_negative("time_per_failure", time_per_failure)
    failures = sum(parts.values()) / between if between else 0.0
    parts["waiting after failures"] = failures * lost
    return Parts(f"device-time of one job on {n:,} devices", "second", parts)
