"""The simulator of pipeline schedules: actions a second, and how its time grows with stages and
micro-batches; beside torch's own dry run of the same lists, which counts steps and knows no times.
"""

import time
from collections.abc import Callable, Iterator

import rounds
from torch.distributed.pipelining import schedules

from mathlib.schedule import check, orders
from mathlib.schedule.actions import Schedule
from mathlib.schedule.simulate import simulate

AIM = 1.0  # second, for the largest


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """Seconds of processor that a call takes: one thread, so that neighbours count for less."""

    def seconds() -> float:
        begin = time.process_time()
        call()
        return time.process_time() - begin

    return seconds


def of_torch(schedule: Schedule) -> Callable[[], object]:
    """torch's dry run, on the same lists with their sends and receives put in."""
    kinds = {kind.value: kind for kind in schedules._ComputationType}
    lists = {
        s: [schedules._Action(c, kinds[kind], i) for kind, i, c in actions]
        for s, actions in enumerate(schedule.actions)
    }
    where = dict(enumerate(schedule.placements[0])).__getitem__
    sent = schedules._add_send_recv(lists, where, schedule.model_chunks)
    return lambda: schedules._simulate_comms_compute(sent, where, schedule.model_chunks)


def rows(quick: bool) -> Iterator[dict]:
    for p, m in [(4, 64), (4, 256), (16, 64), (16, 256)]:
        schedule = orders.make("1f1b", stages=p, micro_batches=m)
        candidates = {
            "simulate": timed(lambda one=schedule: simulate(one)),
            "validate": timed(lambda one=schedule: check.validate(one)),
            "torch's dry run": timed(of_torch(schedule)),
        }
        times = rounds.alone(candidates, rounds=3 if quick else 20)
        yield row(schedule, times, "torch's dry run")
    for p, m in [(16, 1024), (64, 1024), (16, 4096), (64, 4096)]:
        schedule = orders.make("1f1b", stages=p, micro_batches=m)
        candidates = {
            "simulate": timed(lambda one=schedule: simulate(one)),
            "one second": lambda: AIM,
        }
        times = rounds.alone(candidates, rounds=2 if quick else 10)
        yield row(schedule, times, "one second")


def row(schedule: Schedule, times: rounds.Times, theirs: str) -> dict:
    """One comparison, with actions a second."""
    actions = sum(map(len, schedule.actions))
    what = f"1F1B, {schedule.stages} stages, {schedule.micro_batches} micro-batches"
    found = rounds.row(what, times, "simulate", theirs, actions=actions)
    return found | {"actions_per_second": round(actions / found["ours_seconds"])}
