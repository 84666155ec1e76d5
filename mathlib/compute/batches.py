"""Sequences and tokens of a step.

t tensor · p pipeline · b micro_batch · m micro_batches · s tokens
"""

from collections.abc import Iterable

from mathlib.checks import InputError, listed, quotient, whole


def global_batch(
    *,
    world: int,
    per_replica: int,
    tensor: int = 1,
    pipeline: int = 1,
    context: int = 1,
    micro_batches: int = 1,
) -> int:
    """Sequences of one step: (world / (t p c)) * b * m. Sharding does not enter: shards see
    different data.

    Chapter: planning
    """
    data = quotient("world", world, {"tensor": tensor, "pipeline": pipeline, "context": context})
    return data * whole("per_replica", per_replica) * whole("micro_batches", micro_batches)


def batch_tokens(*, tokens: int, **batch: int) -> int:
    """Tokens of one step: sequences of `global_batch` times the length of a sequence.

    Chapter: planning
    """
    return whole("tokens", tokens) * global_batch(**batch)


def scheduled_tokens(schedule: Iterable[tuple[int, int]], tokens: int) -> int:
    """Tokens of a run whose batch grows: s * sum of batch * steps over the schedule's rows (batch,
    steps).

    Chapter: planning
    """
    rows = [listed("schedule", row) for row in listed("schedule", schedule)]
    if not rows or any(len(row) != 2 for row in rows):
        raise InputError(
            f"schedule = {schedule!r}: expected rows of a batch and its steps, such as [(512, "
            "50000)]"
        )
    return whole("tokens", tokens) * sum(
        whole("schedule", b) * whole("schedule", n) for b, n in rows
    )
