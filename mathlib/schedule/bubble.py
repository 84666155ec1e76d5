"""Closed formulas for equal stages and messages that take no time; for all else, simulate.

p stages · m micro_batches · v chunks a stage
F forward of a micro-batch on a stage · B whole backward · W the part of it for the weights
I the rest of B, for the input

The bubble has two names, never one: over the ideal time, when all stages always work, or over all
of the time.
"""

from mathlib.checks import InputError, below, flag, non_negative, one_of, positive, whole
from mathlib.memory.activations import in_flight

CHUNKED = ("interleaved", "breadth-first")
PLAIN = ("gpipe", "1f1b", "pipedream", "2bw")
SPLIT = ("zb-h1", "zb-h2", "zb-v", "dualpipe")


def over_ideal(*, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Idle time over working time: (p - 1) / (v m), for any F and B (Narayanan et al. 2021,
    sections 2.2.1 and 2.2.2; v = 1 for GPipe and 1F1B).

    (p - 1) / (p m) has been printed; it is wrong.

    Chapter: pipeline (eq-bubble-ideal)
    """
    p, m, v = _sizes(stages, micro_batches, chunks)
    return (p - 1) / (v * m)


def over_total(*, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Idle time over all time: (p - 1) / (v m + p - 1) (Huang et al. 2019, section 2.3, for v = 1).

    At m = 4 p it grows with p towards 20%.  (p - 1) / (2 m + p - 1) has been printed for v = 1; it
    is what v = 2 has.

    Chapter: pipeline (eq-bubble-total, eq-bubble-limit)
    """
    p, m, v = _sizes(stages, micro_batches, chunks)
    return (p - 1) / (v * m + p - 1)


def recomputed_early(
    *, stages: int, micro_batches: int, forward: float = 1.0, backward: float = 2.0
) -> float:
    """Idle time over all time of fill and drain, if a waiting stage recomputes its forward before
    the gradient has come: (p-1) (F+B) / (m (2F+B) + (p-1) (F+B)) (Huang et al. 2019, section 2.3).

    Chapter: pipeline
    """
    p, m, _ = _sizes(stages, micro_batches, 1)
    F, B = positive("forward", forward), positive("backward", backward)
    return (p - 1) * (F + B) / (m * (2 * F + B) + (p - 1) * (F + B))


def pace(
    *, stages: int, message: float, ahead: int = 1, forward: float = 1.0, backward: float = 2.0
) -> float:
    """Seconds a micro-batch takes in the long run of a 1F1B whose stages do `ahead` (p-s-1)
    forwards first: its way there and back, p (F+B) + 2 (p-1) message, shared by all that are on
    that way, ahead (p-1) + 1; and no less than a stage works on it, F+B.

    Twice ahead hides messages of up to (F+B)/2.

    Chapter: pipeline (eq-round-trip, eq-ahead)
    """
    p, on_the_way = whole("stages", stages), whole("ahead", ahead) * (stages - 1) + 1
    F, B = positive("forward", forward), positive("backward", backward)
    way = p * (F + B) + 2 * (p - 1) * non_negative("message", message)
    return max(F + B, way / on_the_way)


def interleaved_step(
    *,
    stages: int,
    micro_batches: int,
    chunks: int,
    message: float,
    forward: float = 1.0,
    backward: float = 2.0,
) -> float:
    """Seconds of an interleaved step whose messages take time: m (F+B) + (p-1) (F+B) / v and the
    2 (p v - 1) messages on its two ways.

    Those of the steady state hide behind compute while none takes longer than the forward of a
    chunk, F/v, nor that longer than a chunk's backward.

    Chapter: schedules (eq-hidden)
    """
    p, m, v = _sizes(stages, micro_batches, chunks)
    F, B = positive("forward", forward), positive("backward", backward)
    sent = non_negative("message", message)
    if m % p:
        raise InputError(f"micro_batches = {m}: expected a multiple of stages = {p}")
    if v < 2 or not sent <= F / v <= B / v:
        raise InputError(
            f"message = {message}, chunks = {chunks}, forward = {forward}, backward = {backward}: "
            "the formula holds for two chunks or more and messages of at most the forward of a "
            "chunk, which is at most its backward; for others, simulate"
        )
    return m * (F + B) + (p - 1) * (F + B) / v + 2 * (p * v - 1) * sent


def idle(
    *,
    order: str,
    stages: int,
    micro_batches: int,
    chunks: int = 1,
    forward: float = 1.0,
    backward: float = 2.0,
    weight: float | None = None,
    flush: bool = True,
) -> float:
    """Seconds of a step in which a stage has nothing to do; `weight` None is half of `backward`.

    GPipe, 1F1B (and PipeDream and 2BW, once in a run): (p-1) (F+B).  Interleaved, breadth-first:
    (p-1) (F+B) / v.  ZB-H1: (p-1) (F+I-W).  ZB-H2: (p-1) max(F, F+I-2W).  At F = I = W, ZB-V:
    (p-1) F / 2, and DualPipe, where no two actions overlap: (p/2-1) F; where a forward and a
    backward overlap as one action F&B, (p/2-1) (F&B + B - 3W), as its page says.

    Without a flush the next step may begin on each stage for itself, so that only what lies between
    a stage's own first and last action counts, as zero-bubble papers have it (Qi et al. 2024;
    their B is I).  ZB-H2 has (p-1) max(0, F+I-2W) then, and ZB-V 0.

    Chapter: pipeline (eq-bubble)
    Chapter: schedules (eq-two-ends, eq-zero-bubble)
    """
    p, v = _accepted(order, stages, micro_batches, chunks)[::2]
    F, B, W = _times(order, forward, backward, weight)
    staggered = flag("flush", flush) and order in ("zb-h2", "zb-v")
    return {
        "zb-h1": (p - 1) * (F + B - 2 * W),
        "zb-h2": (p - 1) * max(F * staggered, F + B - 3 * W),
        "zb-v": (p - 1) * F / 2 * staggered,
        "dualpipe": (p / 2 - 1) * F,
    }.get(order, (p - 1) * (F + B) / v)


def held(*, order: str, stages: int, micro_batches: int, chunks: int = 1, stage: int = 0) -> float:
    """Micro-batches' worth of activations that a stage holds at its peak.

    GPipe, breadth-first: m.  1F1B, PipeDream, 2BW: min(p - s, m).  Interleaved: as
    `memory.activations.in_flight`.  ZB-H1: min(p, m).  ZB-H2: min(2p - 1, m).  ZB-V: p.
    DualPipe: p + 1.  Where W waits, a micro-batch's activations count until it is done.

    Chapter: pipeline (eq-held)
    Chapter: schedules (eq-interleaved-held)
    """
    p, m, v = _accepted(order, stages, micro_batches, chunks)
    if order in PLAIN or order == "interleaved":
        kind = "gpipe" if order == "gpipe" else "1f1b"
        return in_flight(pipeline=p, micro_batches=m, chunks=v, stage=stage, schedule=kind)
    below("stage", stage, p)
    of_all = {"zb-h1": min(p, m), "zb-h2": min(2 * p - 1, m), "zb-v": p, "dualpipe": p + 1}
    return of_all.get(order, m)


def versions(*, order: str, stages: int, stage: int = 0) -> int:
    """Versions of its weights that a stage keeps: p - s for PipeDream, 2 for 2BW, else 1, once the
    run is long enough to fill the pipeline (Narayanan et al. 2019, section 3.3; 2021, section 3.1).

    Chapter: schedules (eq-stash)
    """
    p = whole("stages", stages)
    below("stage", stage, p)
    every = (*PLAIN, *CHUNKED, *SPLIT)
    return {"pipedream": p - stage, "2bw": 2}.get(one_of("order", order, every), 1)


def messages(*, stages: int, micro_batches: int, chunks: int = 1) -> int:
    """Messages of a step between stages, activations there and gradients back: 2 m (p v - 1).

    Interleaving sends about v times as many; with one stage, nothing is sent.

    Chapter: schedules (eq-interleaved-messages)
    """
    p, m, v = _sizes(stages, micro_batches, chunks)
    return 2 * m * (p * v - 1) if p > 1 else 0


def _sizes(stages: int, micro_batches: int, chunks: int) -> tuple[int, int, int]:
    m, v = whole("micro_batches", micro_batches), whole("chunks", chunks)
    return whole("stages", stages), m, v


def _accepted(order: str, stages: int, micro_batches: int, chunks: int) -> tuple[int, int, int]:
    """Sizes for which the order's formulas hold."""
    p, m, v = _sizes(stages, micro_batches, chunks)
    one_of("order", order, (*PLAIN, *CHUNKED, *SPLIT))
    if v > 1 and order not in CHUNKED:
        raise InputError(f"chunks = {v}: expected 1, or an order of {', '.join(CHUNKED)}")
    if order == "interleaved" and m % p:
        raise InputError(f"micro_batches = {m}: expected a multiple of stages = {p}")
    if order == "dualpipe" and p % 2:
        raise InputError(f"stages = {p}: expected even")
    long = {
        "breadth-first": p,
        "zb-h1": p,
        "zb-h2": 2 * p - 1,
        "zb-v": 2 * p - 1,
        "dualpipe": 2 * p,
    }
    if m < long.get(order, 1):
        raise InputError(
            f"micro_batches = {m}: the formula of {order} with stages = {p} holds from "
            f"{long[order]} on; for fewer, simulate"
        )
    return p, m, v


def _times(
    order: str, forward: float, backward: float, weight: float | None
) -> tuple[float, float, float]:
    """F, B and W, for which the order's formula holds."""
    F, B = non_negative("forward", forward), non_negative("backward", backward)
    W = B / 2 if weight is None else non_negative("weight", weight)
    equal = order in ("zb-v", "dualpipe")
    if W > B or (order in SPLIT and min(F, B - W) < W) or (equal and not F == B - W == W):
        wanted = "F = I = W" if equal else "W at most F and I" if W <= B else "W at most B"
        raise InputError(
            f"weight = {W}, forward = {F}, backward = {B}: the formula of {order} holds for "
            f"{wanted}; for others, simulate"
        )
    return F, B, W
