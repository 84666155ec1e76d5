"""The smallest number of GPUs that holds a model, as a way to choose: ten published sweeps, and the
five people's month.

A replica is what reads sequences of its own; its GPUs are tensor ranks times stages.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from mathlib.layout import Layout
from mathlib.plan.published_runs import Published, published, sweeps
from mathlib.plan.step import step
from mathlib.plan.sweeps import Sweep
from mathlib.records import replace
from mathlib.trials.planning import PROGRAM, able, sweep
from mathlib.trials.planning_trust import every

SIZES = (1, 2, 4, 8, 16, 32, 64)
WIDE = ((128, 8192, 40), (256, 2048, 60), (128, 8192, 60), (128, 2048, 80))  # GPUs, tokens, layers


class Fewest(NamedTuple):
    """A sweep by the GPUs of a replica."""

    title: str
    slower: dict[int, float]  # of the best run with so many, than the quickest of all
    counted: int  # GPUs that each of all replicas needs, nothing recomputed
    alone: int  # GPUs that one replica needs with nobody to share with

    @property
    def lost(self) -> float:
        """By the fewest that ran."""
        return self.slower[min(self.slower)]


@cache
def fewest() -> list[Fewest]:
    """The six sweeps on up to 64 GPUs."""
    return [Fewest(one.title, slower(one), counted(one), alone(one)) for one in every()]


def slower(one: Sweep) -> dict[int, float]:
    best = one.timed[0].seconds
    sizes = sorted({t.instance for t in one.timed})
    return {n: min(t.seconds for t in one.timed if t.instance == n) / best - 1 for n in sizes}


def counted(one: Sweep) -> int:
    on = one.machine(PROGRAM)
    layouts = [c.layout for c in able(on, one.devices, one.sequences)]
    return min(x.tensor * x.pipeline for x in layouts if x.recompute == "none")


def alone(one: Sweep) -> int:
    on = one.machine(PROGRAM)
    return next(n for n in SIZES if able(on, n, one.sequences))


class Wide(NamedTuple):
    """A sweep on 128 GPUs or more, where many trials recomputed everything."""

    title: str
    plain: float  # how much slower the fewest GPUs of a replica were, nothing recomputed
    again: float  # with recomputation, than the quickest without the kernel for norms: it had none


def wide() -> list[Wide]:
    """The study's four other sweeps with FlashAttention 2."""
    runs = [run for run in (*published()[0], *sweeps()) if run.source == "aleph-alpha"]
    return [_wide([run for run in runs if _key(run) == key and run.seconds]) for key in WIDE]


def _key(run: Published) -> tuple[int, int, int]:
    return run.layout.world, run.tokens, run.model.layers


def _wide(runs: list[Published]) -> Wide:
    def few(among: list[Published]) -> float:
        return min(among, key=lambda r: (r.layout.tensor * r.layout.pipeline, r.seconds)).seconds

    best = min(run.seconds for run in runs)
    bare = min(run.seconds for run in runs if run.program != PROGRAM)
    title = f"{runs[0].model.name}, {runs[0].layout.world} A100, {runs[0].tokens:,} tokens"
    once = [run for run in runs if run.layout.recompute == "none"]
    return Wide(title, few(once) / best - 1, few(runs) / bare - 1)


def ways() -> Iterator[tuple[str, int, Layout, float]]:
    """The five's fewest GPUs, copies of them on 64, and a new search for 64: GPUs, layout, seconds
    of a step.
    """
    on, sequences = sweep().machine(PROGRAM), sweep().sequences
    n = alone(sweep())
    first, anew = (able(on, gpus, sequences)[0] for gpus in (n, 64))
    yield f"{n} GPUs", n, first.layout, first.seconds
    times = 64 // n
    more: dict[str, Any] = {"data": times * first.layout.data, "shard": 0}
    copied = replace(first.layout, **more, micro_batches=first.layout.micro_batches // times)
    yield f"{times} copies of these", 64, copied, step(on, copied).total
    yield "64 GPUs, searched anew", 64, anew.layout, anew.seconds
