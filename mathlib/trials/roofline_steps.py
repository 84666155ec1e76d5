"""Sixty published steps of MPT on eight GPUs, and a layer of Megatron, by roofline.

P parameters · b sequences of a micro-batch · m micro-batches · s tokens of a sequence
"""

from typing import Any, NamedTuple

import torch

from mathlib import specs
from mathlib.compute import flops, operations, params, roofline
from mathlib.specs import Device
from mathlib.traffic import comm
from mathlib.trials.roofline import BEST, LEAST, PUBLISHED

GPUS = 8
FITTED = ("elementwise", "attention", "messages")


class Step(NamedTuple):
    """Seconds of a published step, and of what the roofline adds up for it."""

    device: Device
    best: float  # of the device's peak: the best matmul
    size: str
    tokens: int
    matmuls: float  # with weights, at the rate of the best
    elementwise: float  # all that is no matmul: norms, additions, Adam
    attention: float  # at the peak
    messages: float  # at the link's rate, nothing hidden
    ideal: float  # FLOP of MFU, all pairs of tokens, at the peak
    kernels: float
    real: float

    @property
    def mfu(self) -> float:
        return self.ideal / self.real

    @property
    def promised(self) -> float:
        """Seconds by the roofline, with the best matmul for the peak of everything."""
        return self.matmuls + self.elementwise + self.attention / self.best


def messages(P: float, device: Device, gradient_bytes: int = 2) -> float:
    """Seconds to collect 16-bit weights twice and give gradients away, if nothing hides it."""
    link: dict[str, Any] = {"bandwidth": device.link_bandwidth, "latency": 0}
    sent = {"all-gather": 2 * 2 * P, "reduce-scatter": gradient_bytes * P}
    return sum(comm.time(c, payload=K, ranks=GPUS, **link).total for c, K in sent.items())


def step(key: str, size: str, s: int, b: int, m: int, speed: float) -> Step:
    device, model = specs.find_device(key), specs.find_model(f"mpt-bench-{size}").but(context=s)
    P, rate = params.total(model), {"peak": BEST[key], "bandwidth": device.memory_bandwidth}
    asked: dict[str, Any] = {"micro_batch": b, "attention": "flash", "causal": True}
    done = [o for o in operations.step(model, fused=False, **asked) if o.part != "loss"]
    done += [o for o in operations.step(model, logits_bytes=2, **asked) if o.part == "loss"]
    core = [o for o in done if o.part == "attention core"]  # the loss is one kernel
    matmuls = [o for o in done if o.matmul and o not in core]
    others = [o for o in done if not o.matmul]
    update = roofline.time(operations.adam(parameters=P / GPUS), **rate).total
    return Step(
        device,
        BEST[key] / device.half,
        size,
        s,
        m * roofline.time(matmuls, **rate).total,
        m * roofline.time(others, **rate).total + update,
        m * roofline.totals(core).total / device.half,
        m * messages(P, device),
        flops.training(model, sequences=b * m).total / device.half,
        m * sum(o.times * o.kernels for o in done),
        GPUS * b * m * s / speed,
    )


def steps() -> dict[str, list[Step]]:
    """All rows with eight GPUs of 80 GB, bf16 and no recomputation."""
    return {key: [step(key, *run) for run in PUBLISHED["mpt"][key]] for key in BEST}


def constants(found: list[Step], without: str = "", parts: tuple[str, ...] = FITTED) -> list[float]:
    """Factors of some parts by least squares of the relative error, a model size left out."""
    fit = [o for o in found if o.size != without]
    left = [[getattr(o, part) / o.real for part in parts] for o in fit]
    right = [[1 - ("matmuls" not in parts) * o.matmuls / o.real] for o in fit]
    sides = (torch.tensor(side, dtype=torch.float64) for side in (left, right))
    return torch.linalg.lstsq(*sides).solution[:, 0].tolist()  # type: ignore[no-any-return]


def foreseen(found: list[Step]) -> list[float]:
    """Predicted over published seconds of each step, with constants of the other sizes."""
    ratios = []
    for o in found:
        c = constants(found, o.size)
        more = sum(a * getattr(o, part) for a, part in zip(c, FITTED, strict=True))
        ratios.append((o.matmuls + more) / o.real)
    return ratios


def causes(found: list[Step], size: str) -> tuple[Step, dict[str, float]]:
    """A step and its seconds by cause, with constants of the other sizes."""
    (one,) = [o for o in found if o.size == size]
    c = constants(found, size)
    caused = {
        "matmuls at the peak": one.matmuls * one.best + one.attention,
        "best matmul below the peak": (1 - one.best) * one.matmuls
        + (1 / one.best - 1) * one.attention,
        "memory traffic": one.elementwise,
        "element-wise, beyond the count": (c[0] - 1) * one.elementwise,
        "slower attention": (c[1] - 1 / one.best) * one.attention,
        "messages": c[2] * one.messages,
    }
    return one, caused | {"unexplained": one.real - sum(caused.values())}


def down(found: list[Step], size: str) -> list[list[str]]:
    """Cause, its share of the step, and the MFU that is left after it."""
    one, caused = causes(found, size)
    rows, so_far = [], 0.0
    for what, spent in caused.items():
        so_far += spent
        rows.append([what, f"{spent / one.real:.1%}", f"{one.ideal / so_far:.1%}"])
    return rows


def shares(found: list[Step], size: str) -> tuple[str, dict[str, float]]:
    """Which GPU with which MFU, and the shares of a step by cause."""
    one, caused = causes(found, size)
    title = f"{one.device.title[:4]}, MFU {one.mfu:.0%}"
    return title, {what: spent / one.real for what, spent in caused.items()}


def least_kernels(found: list[Step]) -> float:
    """Share of a step that its kernels take at the least time of each, at most."""
    return max(o.kernels * LEAST / o.real for o in found)


def elementwise_left(fused: bool) -> float:
    """How many times their bytes' time element-wise kernels take at most in a published layer of
    22B on eight A100s: what its matmuls and the two all-reduces of forward leave of it, as matmuls
    may hide those of backward.
    """
    a100, X = specs.find_device("a100-80gb"), BEST["a100-80gb"]
    big = specs.Model("22B", layers=48, width=6144, heads=64, vocab=51_200, context=2048)
    done = operations.layer(big, micro_batch=4, tensor=GPUS, attention="standard", fused=fused)
    matmuls, others = (
        sum(o.seconds(X, a100.memory_bandwidth) for o in done if o.matmul == kind)
        for kind in (True, False)
    )
    payload, link = 2 * 4 * big.context * big.width, a100.link_bandwidth
    sent = comm.time("all-reduce", payload=payload, ranks=GPUS, bandwidth=link, latency=0).total
    spent = sum(PUBLISHED["layer-22b"][way] for way in ("forward", "backward"))
    return (spent - matmuls - 2 * sent) / others
