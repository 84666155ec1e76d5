"""The sharding degree: the smallest that fits, then as large a batch as memory holds.

t tensor · N data-parallel ranks · S ranks ZeRO shards over · b micro_batch · M bytes of a device
Every degree costs communication, and beyond a node slower communication.
"""

from typing import Any

from mathlib.checks import InputError, divisors, instance, positive, whole
from mathlib.memory import fit, zero_rank
from mathlib.memory.fit import Verdict
from mathlib.parts import Parts
from mathlib.records import dataclass, replace
from mathlib.specs import Device, Layout, Model, find_model


@dataclass(frozen=True)
class Try:
    """A degree, and whether the smallest batch fits with it."""

    layout: Layout
    needed: Parts  # bytes at the fullest moment
    verdict: Verdict

    def __str__(self) -> str:
        return f"degree {self.layout.shard}, batch {self.layout.micro_batch}: {self.verdict}"


@dataclass(frozen=True)
class Choice:
    """What was tried, in order; true when one fits."""

    tries: list[Try]  # every degree with the smallest batch, the last one fits unless none does
    largest: Try | None  # the chosen degree with the largest batch that fits
    refused: Try | None  # one sequence more

    def __bool__(self) -> bool:
        return self.largest is not None

    @property
    def layout(self) -> Layout:
        """The layout chosen."""
        if self.largest is None:
            raise InputError(f"no degree fits: {self.tries[-1]}")
        return self.largest.layout

    def __str__(self) -> str:
        steps = [*self.tries, *(one for one in (self.largest, self.refused) if one)]
        return "\n".join(map(str, steps))


def _tried(
    model: Model, layout: Layout, memory: float | str | Device, reserve: float, options: Any
) -> Try:
    """Degree 1 shards nothing: plain data parallelism."""
    run = layout if layout.shard > 1 else replace(layout, zero=0)
    needed = zero_rank.peak(model, run, **options)
    return Try(layout, needed, fit.fits(needed, memory, reserve=reserve))


def choose(
    model: str | Model,
    layout: Layout,
    memory: float | str | Device,
    *,
    reserve: float = 0,
    micro_batch: int = 1,
    most: int = 512,
    **options: Any,
) -> Choice:
    """The smallest degree S that divides N and holds `micro_batch` sequences, then the
    batch from there up until memory runs out, or to `most`.

    As SageMaker's page advises: begin with a small degree and raise it until the model
    and the batch wanted fit; begin with batch 1 and raise it. `layout` gives the ranks,
    the stage (0 is taken as 3) and what is recomputed; `options` go to `zero_rank.peak`.

    Chapter: mics
    """
    model, layout = find_model(model), instance("layout", layout, Layout)
    positive("memory", memory) if not isinstance(memory, str | Device) else None
    b = whole("micro_batch", micro_batch)
    start = replace(layout, zero=layout.zero or 3, micro_batch=b)
    tries: list[Try] = []
    for degree in divisors(layout.data):
        one = _tried(model, replace(start, shard=degree), memory, reserve, options)
        tries.append(one)
        if one.verdict:
            break
    if not tries[-1].verdict:
        return Choice(tries, None, None)
    good, bad = tries[-1], None
    limit = whole("most", most)
    while good.layout.micro_batch < limit and (not bad or _gap(good, bad) > 1):
        b = good.layout.micro_batch
        b = min(2 * b, limit) if bad is None else b + _gap(good, bad) // 2
        one = _tried(model, replace(good.layout, micro_batch=b), memory, reserve, options)
        good, bad = (one, bad) if one.verdict else (good, one)
    return Choice(tries, good, bad)


def _gap(good: Try, bad: Try) -> int:
    """Sequences between a batch that fits and one that does not: bytes only grow with it."""
    return bad.layout.micro_batch - good.layout.micro_batch
