"""How much of a run's time is training: checkpoints take some, failures and what they destroy more.

K payload, the bytes of a checkpoint · N ranks that write it · W bandwidth of each, bytes per second
T time in seconds of training without saves and failures · n devices
Failures come by chance (Poisson), however long ago the last one was. All times are in seconds, and
concern the whole job: if one device fails every F seconds, n of them fail every F/n.
`plan.interruptions` holds published runs, and the same run played out.
"""

import math

from mathlib.checks import InputError, flag, fraction, non_negative, one_of, positive, whole
from mathlib.parts import Parts
from mathlib.records import dataclass

HALVINGS = 50  # of a range, until its ends are the same number


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

    Chapter: planning (eq-plan-young)
    """
    save = positive("time_per_save", time_per_save)
    failures = positive("time_between_failures", time_between_failures)
    first = math.sqrt(2 * save * failures)
    if one_of("method", method, ("young", "daly")) == "young":
        return first
    x = math.sqrt(save / (2 * failures))
    return first * (1 + x / 3 + x * x / 9) - save if x < 1 else failures


def best_interval(*, time_per_save: float, time_between_failures: float) -> float:
    """Seconds of training between saves where `time_for` is lowest, to the last digit: the s with
    (1 - s/F) e^((s + save)/F) = 1.

    What is left of that falls from e^(save/F) - 1 to -1 as s goes from 0 to F: halved until found.

    Chapter: planning
    """
    failures = positive("time_between_failures", time_between_failures)
    save = positive("time_per_save", time_per_save) / failures
    low, high = 0.0, 1.0  # of s / F
    for _ in range(HALVINGS):
        s = (low + high) / 2
        low, high = (s, high) if math.log1p(-s) + s + save > 0 else (low, s)
    return (low + high) / 2 * failures


@dataclass(frozen=True)
class Interrupted:
    """A run that saves and fails, all in seconds; refused where it would never end."""

    seconds: float  # of training, without saves and failures
    time_between_saves: float  # of training
    time_per_save: float  # in which training stops
    time_between_failures: float  # of the whole job, on average
    time_per_failure: float = 0.0  # until training goes on
    time_behind: float = 0.0  # after a save, until it is safe

    def __post_init__(self) -> None:
        for name in ("seconds", "time_between_saves", "time_between_failures"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        for name in ("time_per_save", "time_per_failure", "time_behind"):
            object.__setattr__(self, name, non_negative(name, getattr(self, name)))
        between, failures = self.time_between_saves, self.time_between_failures
        if self.time_behind > between:
            raise InputError(
                f"time_behind = {self.time_behind:g}: expected at most time_between_saves = "
                f"{between:g}, as one save is written at a time"
            )
        most = self.time_per_failure + self.time_behind + between + self.time_per_save
        if most > 100 * failures:  # e^100: no run ends
            raise InputError(
                f"time_between_failures = {failures:g}: expected more than a hundredth of "
                f"what passes from one save to the next and after a failure, {most:g}"
            )

    def parts(self, title: str, trained: float, passed: float) -> Parts:
        """Where the seconds that passed went, of which so many trained."""
        saving = trained * self.time_per_save / self.time_between_saves
        parts = {"compute": trained, "saving": saving}
        parts["waiting after failures"] = max(passed - (trained + saving), 0.0)
        return Parts(title, "second", parts)


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

    Chapter: planning (eq-plan-daly)
    """
    run = Interrupted(
        *(seconds, time_between_saves, time_per_save),
        *(time_between_failures, time_per_failure, time_behind),
    )
    T, s, d = run.seconds, run.time_between_saves, run.time_per_save
    F, R = run.time_between_failures, run.time_per_failure + run.time_behind
    passed = T * F * (math.exp(R / F) * math.expm1((s + d) / F)) / s
    return run.parts("Expected time of a run that saves and fails", T, passed)


def time_if_waits_are_safe(
    *,
    seconds: float,
    time_between_saves: float,
    time_per_save: float,
    time_between_failures: float,
    time_per_failure: float = 0.0,
    time_behind: float = 0.0,
) -> Parts:
    """Expected time of a run whose devices do not break while they wait: F e^(R/F) of `time_for`
    becomes F + R.

    Each failure then costs its repair once; there, a repair may be cut short by the next failure
    and starts again.

    Chapter: planning
    """
    run = time_for(
        seconds=seconds,
        time_between_saves=time_between_saves,
        time_per_save=time_per_save,
        time_between_failures=time_between_failures,
        time_behind=time_behind,
    )
    repairs = run.total / time_between_failures * non_negative("time_per_failure", time_per_failure)
    lost = run.amount("waiting after failures") + repairs
    return Parts(run.title, "second", dict(run) | {"waiting after failures": lost})


def shares(
    *,
    devices: int,
    device_time_between_failures: float,
    time_per_save: float,
    time_per_failure: float,
    time_between_saves: float = 0.0,
    time_behind: float = 0.0,
    fails_while_down: bool = True,
) -> Parts:
    """An elapsed second of a job on n devices, each of which fails every so often: its part
    "compute" is the goodput.

    time_between_saves: 0 takes the best one. The job fails n times as often as a device, and all
    devices wait. fails_while_down: whether they break meanwhile, too.

    Chapter: planning
    """
    n = whole("devices", devices)
    failures = positive("device_time_between_failures", device_time_between_failures) / n
    save = positive("time_per_save", time_per_save)
    between = non_negative("time_between_saves", time_between_saves) or max(
        best_interval(time_per_save=save, time_between_failures=failures),
        non_negative("time_behind", time_behind),
    )
    expected = time_for if flag("fails_while_down", fails_while_down) else time_if_waits_are_safe
    whole_time = expected(
        seconds=1.0,
        time_between_saves=between,
        time_per_save=save,
        time_between_failures=failures,
        time_per_failure=time_per_failure,
        time_behind=time_behind,
    )
    return whole_time.scaled(1 / whole_time.total, title=f"A second of a job on {n:,} devices")


def time_on_more(
    *,
    devices: int,
    factor: int,
    device_time_between_failures: float,
    time_per_save: float,
    time_per_failure: float,
    fails_while_down: bool = True,
) -> float:
    """Time of a job on `factor` times n devices over its time on n: goodput(n) / (factor
    goodput(factor n)), if the work itself divides without loss. 1/factor is perfect; above 1, more
    devices are slower.

    Each of the two saves as often as is best for it.

    Chapter: planning
    """
    n, times = whole("devices", devices), whole("factor", factor)
    few, many = (
        shares(
            devices=each,
            device_time_between_failures=device_time_between_failures,
            time_per_save=time_per_save,
            time_per_failure=time_per_failure,
            fails_while_down=fails_while_down,
        ).amount("compute")
        for each in (n, times * n)
    )
    return few / (times * many)


def repair_for(
    *,
    goodput: float,
    time_between_failures: float,
    time_per_save: float,
    fails_while_down: bool = True,
) -> float:
    """Seconds that each failure may cost, beyond lost work, for a share of the time that trains:
    `time_for` solved for R at the best interval; what a printed share says of a run's repairs.

    Chapter: planning
    """
    share = fraction("goodput", goodput)
    save = positive("time_per_save", time_per_save)
    failures = positive("time_between_failures", time_between_failures)
    between = best_interval(time_per_save=save, time_between_failures=failures)
    ready = between / (share * math.expm1((between + save) / failures))  # what F e^(R/F) must be
    if ready < failures:
        most = between / (failures * math.expm1((between + save) / failures))
        raise InputError(
            f"goodput = {share:g}: expected at most {most:.4g}, which is left when repairs take "
            f"no time and a save takes {save:g} s"
        )
    if flag("fails_while_down", fails_while_down):
        return failures * math.log(ready / failures)
    return ready - failures
