"""Bytes alive on a rank over sharded steps: what `meters.live` sees of a ZeRO class.

Rows that come and go are weights, and so is a shard, in whatever precision; a gradient that has
arrived is one, its way there temporary.
"""

from collections.abc import Iterable
from itertools import count

from torch import Tensor
from torch.utils._pytree import tree_leaves

from mathlib.meters import live
from mathlib.parallel.flat_shards import FlatShard
from mathlib.parallel.zero1 import Zero1
from mathlib.parallel.zero3 import Zero3


def rows_of(zero: Zero1) -> list[FlatShard]:
    """Every row, those of frozen parameters too."""
    if isinstance(zero, Zero3):
        return [row for rows in zero.rows.values() for row in rows]
    return zero.shards


def step_timeline(
    zero: Zero1, batches: Iterable[tuple[Tensor, Tensor]], accumulation: int = 1
) -> live.Timeline:
    """Whole training steps of this rank, watched: a mark after each forward, backward and step.

    A step takes `accumulation` batches one after the other.
    """
    with live.live(zero.module) as meter:
        for row in rows_of(zero):
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
    for tensor in tree_leaves(list(zero.optimizer.state.values())):
        if isinstance(tensor, Tensor):
            meter.follow(tensor, "optimizer")
    meter.mark("step")
