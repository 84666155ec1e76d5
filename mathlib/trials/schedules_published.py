"""What the zero-bubble authors timed (Qi et al. 2024), beside the simulator with their own times.

p stages · m micro_batches · F, I, W: times of a forward, of the two parts of a backward
"""

from typing import Any

from mathlib.schedule.published import PublishedStep, published
from mathlib.schedule.simulate import simulate
from mathlib.trials.pipeline import named

STEPS = published()
TIMED = [step for step in STEPS.values() if step.forward]
FEW = [step for step in TIMED if step.micro_batches == 3 * step.stages]


def sizes(step: PublishedStep) -> str:
    return f"{step.name.split(',')[0]}: {step.stages}, {step.micro_batches}"


def simulated(step: PublishedStep, order: str, blocking: bool = False, **more: Any) -> float:
    """Gain over 1F1B, with the times that the authors profiled; 1F1B waits for its messages, as
    Megatron-LM's does.
    """
    m, p, times = step.micro_batches, step.stages, step.times(blocking=blocking)
    plain = simulate(named("1f1b", m, p), step.times(blocking=True)).total
    return plain / simulate(named(order, m, p, **more), times).total - 1


def split(step: PublishedStep) -> tuple[float, float, float]:
    """Gain of ZB-1p: timed, with their times, and with F = I = W and no messages."""
    m, p = step.micro_batches, step.stages
    equal = 3 * (m + p - 1) / (3 * m + p - 1) - 1
    return step.gain("zb-1p"), simulated(step, "zb-h1"), equal


def interleaved(step: PublishedStep) -> tuple[float, float, float]:
    """Gain of interleaving: timed; simulated if stages wait for messages, and if they overlap."""
    waits, overlaps = (
        simulated(step, "interleaved", blocking, chunks=step.chunks) for blocking in (True, False)
    )
    return step.gain("interleaved"), waits, overlaps


def flush_costs() -> list[tuple[str, float, float]]:
    """Of four models, what ZB-2p loses to a flush: timed, and (p-1) F of 3 m F."""
    steps = [step for step in STEPS.values() if "zb-2p, flush" in step.samples]
    return [
        (
            sizes(one),
            one.gain("zb-2p", over="zb-2p, flush"),
            (one.stages - 1) / (3 * one.micro_batches),
        )
        for one in steps
    ]
