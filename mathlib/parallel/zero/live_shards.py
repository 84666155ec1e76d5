"""Bytes alive on a rank over sharded steps: what `meters.live` sees of a ZeRO class.

Rows that come and go are weights, and so is a shard, in whatever precision; a gradient that has
arrived is one, its way there temporary.
"""

from collections.abc import Iterable
from itertools import count

from torch import Tensor

from mathlib.meters import live
from mathlib.parallel.zero.stage1 import Zero1


def step_timeline(
    zero: Zero1, batches: Iterable[tuple[Tensor, Tensor]], accumulation: int = 1
) -> live.Timeline:
    """Whole training steps of this rank, watched: a mark after each forward, backward and step.

    A step takes `accumulation` batches one after the other.
    """
    with live.live(zero.module) as meter:
        for row in zero.every_row():
            meter.follow(row.row, "weights")
            meter.follow(row.shard.data, "weights")
        numbers = count(1)  # enumerate would hold on to a batch
        for tokens, targets in batches:
            loss = zero.module.loss(tokens, targets)  # type: ignore[operator]
            meter.mark("forward")
            loss.backward()
            _follow_pieces(meter, zero)
            meter.mark("backward")
            del loss, tokens, targets
            if next(numbers) % accumulation == 0:
                _update(meter, zero)
    return meter.timeline()


def _follow_pieces(meter: live.LiveMeter, zero: Zero1) -> None:
    for row in zero.shards:
        if row.shard.grad is not None:
            meter.follow(row.shard.grad, "gradients")


def _update(meter: live.LiveMeter, zero: Zero1) -> None:
    zero.step()
    meter.follow_states(zero.optimizer)
    meter.mark("step")
