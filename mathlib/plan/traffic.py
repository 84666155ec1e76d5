"""From how many devices on communication takes more than its share of a step of ZeRO.

P parameters · X FLOP/s of a device · W bandwidth · alpha latency · N data-parallel ranks
e bytes of an element · m micro_batches
A rank computes 6 P x / X seconds for the x tokens of a micro-batch, and sends 2 or 3 times its
weights, whatever x is: more devices for one batch leave each fewer tokens. A ring's latency grows
with N besides, once for every message.
"""

from typing import Any

from mathlib.checks import InputError, fraction, non_negative, positive, whole
from mathlib.parts import Parts
from mathlib.traffic import volumes


def _passes(stage: int, micro_batches: int) -> float:
    """How often a rank sends as many bytes as it has weights, in a step, among many ranks."""
    return volumes.zero(
        parameters=1,
        data=2,
        stage=stage,
        micro_batches=micro_batches,
        weight_bytes=1,
        gradient_bytes=1,
        large_group=True,
    ).total


def step_time(
    *,
    parameters: float,
    stage: int,
    data: int,
    rank_tokens: float,
    achieved: float,
    bandwidth: float,
    latency: float = 0.0,
    messages: int = 1,
    micro_batches: int = 1,
    weight_bytes: float = 2,
    multiplier: float = 6,
) -> Parts:
    """Seconds of a rank's step, nothing hidden: compute 6 P x / X, transfer (what
    `volumes.zero` counts) / W, latency (N-1) alpha for each message.

    `rank_tokens`: x, those of one rank in a step. `messages`: collectives in which one
    pass over the weights or gradients travels (a layer each, or a tensor each).
    `multiplier`: 8 with full recomputation.

    Chapter: zero
    """
    P, N = positive("parameters", parameters), whole("data", data)
    X, W = positive("achieved", achieved), positive("bandwidth", bandwidth)
    alpha = non_negative("latency", latency)
    e, m = positive("weight_bytes", weight_bytes), whole("micro_batches", micro_batches)
    sent = volumes.zero(
        parameters=P, data=N, stage=stage, micro_batches=m, weight_bytes=e, gradient_bytes=e
    ).total
    work = positive("multiplier", multiplier) * P * positive("rank_tokens", rank_tokens) / X
    waits = _passes(stage, m) * whole("messages", messages) * (N - 1) * alpha
    parts = {"compute": work, "transfer": sent / W, "latency": waits}
    return Parts(f"A step of ZeRO stage {stage} on {N} ranks", "second", parts)


def even_tokens(
    *,
    stage: int,
    achieved: float,
    bandwidth: float,
    micro_batches: int = 1,
    weight_bytes: float = 2,
    multiplier: float = 6,
) -> float:
    """Tokens a rank needs in a step to compute as long as it sends, on many devices: c e
    X / (6 W), where c counts passes, 2 for stages 0 to 2, 3 for stage 3.

    The parameter count cancels, and so does the number of devices.

    Chapter: zero (eq-zero-even)
    """
    e, X = positive("weight_bytes", weight_bytes), positive("achieved", achieved)
    W = positive("bandwidth", bandwidth)
    return _passes(stage, micro_batches) * e * X / (positive("multiplier", multiplier) * W)


def tipping_point(
    *,
    parameters: float,
    stage: int,
    batch_tokens: float = 0.0,
    rank_tokens: float = 0.0,
    micro_batch_tokens: float = 0.0,
    achieved: float,
    bandwidth: float,
    share: float = 0.5,
    devices_per_node: int = 8,
    most: int = 16384,
    **options: Any,
) -> int:
    """Devices, in whole nodes, from which on communication takes more than `share` of
    compute and communication together; 0 if it does not up to `most`.

    One of two: `batch_tokens`, those of the whole batch, which more devices share
    (strong scaling), or `rank_tokens`, those of each rank (weak). A micro-batch holds
    `micro_batch_tokens` at most (0: all). From one half on, the best overlap cannot hide
    it. `options` go to `step_time`: latency, messages, weight_bytes, multiplier.

    Chapter: zero
    """
    whole_batch, own = _one_of(batch_tokens, rank_tokens)
    at_once = non_negative("micro_batch_tokens", micro_batch_tokens)
    limit, found = fraction("share", share), 0
    each = whole("devices_per_node", devices_per_node)
    for n in range(whole("most", most) // each * each, 0, -each):
        tokens = own or whole_batch / n
        m = max(1, -int(-tokens // at_once)) if at_once else 1
        run = {"parameters": parameters, "stage": stage, "micro_batches": m} | options
        took = step_time(data=n, rank_tokens=tokens, achieved=achieved, bandwidth=bandwidth, **run)
        if 1 - took.share("compute") <= limit:
            break
        found = n
    return found


def _one_of(batch_tokens: float, rank_tokens: float) -> tuple[float, float]:
    """Tokens of the batch, or of a rank."""
    both = non_negative("batch_tokens", batch_tokens), non_negative("rank_tokens", rank_tokens)
    if bool(both[0]) == bool(both[1]):
        raise InputError(
            f"batch_tokens = {batch_tokens}, rank_tokens = {rank_tokens}: expected one of them"
        )
    return both
