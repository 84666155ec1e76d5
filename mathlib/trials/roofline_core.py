"""One core of a processor: its roof, and every kernel of a training step beneath it.

Seconds are the processor's own, which stand still while the core works for somebody else; what
takes turns keeps its least.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from mathlib.compute import operations, params, roofline
from mathlib.meters import rates
from mathlib.meters.kernels import REST, Kernel, kernels_of
from mathlib.model import gpt

SIDES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
ROWS, WIDE = (1, 4, 16, 64), 4096
SIZES = [2**k for k in range(14, 27, 2)]  # bytes of a vector
BARE = dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias", "tied"), False)
SHAPE = gpt.small(layers=2, width=256, heads=4, vocab=2048, context=128, **BARE)  # type: ignore[arg-type]
SEQUENCES = 4
KINDS = ("activation function", "softmax", "norms", "loss", "optimizer")


class Core(NamedTuple):
    squares: dict[int, float]  # FLOP/s by side
    thin: dict[int, float]  # FLOP/s by rows, of a weight of WIDE x WIDE
    streams: dict[int, float]  # bytes/s of y = -x by bytes of x, read and written
    in_place: dict[int, float]  # of x = -x
    launch: float  # seconds of a kernel with nothing to do

    @property
    def peak(self) -> float:
        return max(*self.squares.values(), *self.thin.values())

    @property
    def bandwidth(self) -> float:
        """Of the memory: the longest vector, where it is fastest."""
        return max(self.streams[max(self.streams)], self.in_place[max(self.in_place)])

    def points(self) -> dict[str, list[tuple[str, float, float]]]:
        """What, intensity and FLOP/s of each matmul."""
        square = [((n, n, n), rate) for n, rate in self.squares.items()]
        thin = [((r, WIDE, WIDE), rate) for r, rate in self.thin.items()]
        return {
            f"squares, {min(self.squares)} to {max(self.squares):,}": list(map(_point, square)),
            "1 to 64 rows, weight 4,096 × 4,096": list(map(_point, thin)),
        }

    def by_size(self) -> dict[str, list[tuple[int, float]]]:
        """FLOP/s of squares: by the roof, with a launch for each, and measured."""
        alone, started = (
            [(n, 2 * n**3 / self.seconds(2 * n**3, 12 * n * n, start)) for n in self.squares]
            for start in (0, self.launch)
        )
        measured = list(self.squares.items())
        return {"roof": alone, "roof and launch": started, "measured": measured}

    def off(self, how: str) -> float:
        """Predicted over measured rate of the smallest square."""
        return self.by_size()[how][0][1] / self.squares[min(self.squares)]

    def seconds(self, flop: float, moved: float, start: float) -> float:
        best = {"peak": self.peak, "bandwidth": self.bandwidth}
        return roofline.seconds(flop=flop, moved=moved, **best) + start

    def foreseen(self, one: Kernel) -> float:
        """Seconds of a kernel, with the bandwidth at its size; Adam writes where it has read."""
        known = self.in_place if one.kind == "optimizer" else self.streams
        rate = known[min(known, key=lambda size: abs(size - one.moved / 2))]
        best = {"peak": self.peak, "bandwidth": rate}
        return roofline.seconds(flop=one.flop, moved=one.moved, **best) + self.launch


def measured(repeat: int = 9) -> Core:
    """The core's rates; the largest squares come first, while it is fresh."""
    square = rates.product_rates([(n, n, n) for n in SIDES[::-1]], repeat=repeat)
    thin = rates.product_rates([(r, WIDE, WIDE) for r in ROWS], repeat=repeat)
    return Core(
        dict(zip(SIDES, square[::-1], strict=True)),
        dict(zip(ROWS, thin, strict=True)),
        dict(zip(SIZES, rates.stream_rates(SIZES, repeat=repeat), strict=True)),
        dict(zip(SIZES, rates.stream_rates(SIZES, in_place=True, repeat=repeat), strict=True)),
        rates.launch_seconds(repeat=repeat),
    )


def _point(one: tuple[tuple[int, int, int], float]) -> tuple[str, float, float]:
    (r, i, o), rate = one
    at = roofline.intensity(rows=r, inner=i, columns=o, bytes_per_element=4)
    return f"{r:,} × {i:,} × {o:,}", at, rate


def _named(one: Kernel) -> str:
    """The kind of a kernel; residual additions and the scale of scores are known by their shape."""
    stream = (SEQUENCES, SHAPE.context, SHAPE.width)
    if one.name == "add" and one.shape == stream and one.moved == 3 * 4 * math.prod(stream):
        return "residual"
    if one.name == "mul" and one.shape[-2:] == (SHAPE.context, SHAPE.context):
        return "softmax"
    return "matmuls" if one.kind == "products" else one.kind


def by_kind(listed: list[Kernel]) -> dict[str, list[Kernel]]:
    found = defaultdict(list)
    for one in listed:
        found[_named(one)].append(one)
    return dict(found)


def counted(listed: list[Kernel]) -> tuple[dict[str, tuple[float, float]], float]:
    """Bytes of a step of SHAPE by kind, predicted and counted; and the share that is copies."""
    asked = {"bytes_per_element": 4, "attention": "standard", "fused": False}
    done = operations.step(SHAPE, micro_batch=SEQUENCES, **asked)  # type: ignore[arg-type]
    wanted: dict[str, float] = defaultdict(float)
    for one in [*done, *operations.adam(parameters=params.total(SHAPE), weight_bytes=4)]:
        wanted["matmuls" if one.product else one.part] += one.times * one.moved
    moved = {kind: sum(one.moved for one in of) for kind, of in by_kind(listed).items()}
    kinds = ("matmuls", "residual", *KINDS)
    return {kind: (wanted[kind], moved[kind]) for kind in kinds}, moved[REST] / sum(moved.values())


class Timed(NamedTuple):
    calls: dict[str, int]  # of kernels by kind, in the quickest run under the meter
    foreseen: dict[str, float]  # seconds
    measured: dict[str, float]
    step: float  # seconds of the quickest run without the meter
    ideal: float  # of its FLOP at the best rate of the core

    @property
    def whole(self) -> float:
        return sum(self.foreseen.values())

    def ratio(self, kind: str) -> float:
        return self.measured[kind] / self.foreseen[kind]

    def rows(self) -> list[list[object]]:
        """Kind, calls, predicted, measured and their ratio; then the step and what MFU it has."""
        rows: list[list[object]] = [
            [k, n, *(f"{1e3 * t[k]:.1f} ms" for t in (self.foreseen, self.measured)), self.ratio(k)]
            for k, n in sorted(self.calls.items())
        ]
        ends = self.whole, self.step
        calls, ratio = sum(self.calls.values()), self.step / self.whole
        rows.append(["the step", calls, *(f"{1e3 * t:.0f} ms" for t in ends), ratio])
        return [*rows, ["its share of the peak", "", *(f"{self.ideal / t:.0%}" for t in ends), ""]]


def timed(step: Callable[[], object], core: Core, rounds: int = 10) -> Timed:
    """A step with the meter and without it, in turn with squares: no matmul beats the peak."""
    runs, least, best = [], float("inf"), core.peak
    for _ in range(rounds):
        runs.append(kernels_of(step, clock=time.process_time))
        start = time.process_time()
        step()
        least = min(least, time.process_time() - start)
        best = max(best, *rates.product_rates([(n, n, n) for n in SIDES[-2:]], repeat=1))
    best = max(best, *(one.flop / one.seconds for run in runs for one in run if one.flop))
    core = core._replace(squares=core.squares | {max(SIDES): best})
    kinds = by_kind(min(runs, key=lambda run: sum(one.seconds for one in run)))
    return Timed(
        {kind: len(of) for kind, of in kinds.items()},
        {kind: sum(map(core.foreseen, of)) for kind, of in kinds.items()},
        {kind: sum(one.seconds for one in of) for kind, of in kinds.items()},
        least,
        sum(one.flop for of in kinds.values() for one in of) / core.peak,
    )
