"""One core of a processor: its roof, and every kernel of a training step beneath it.

Seconds are the processor's own, which stand still while the core works for somebody else; what
takes turns keeps its least.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

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
    square = rates.matmul_rates([(n, n, n) for n in SIDES[::-1]], repeat=repeat)
    thin = rates.matmul_rates([(r, WIDE, WIDE) for r in ROWS], repeat=repeat)
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
    return "matmuls" if one.kind == "matmuls" else one.kind


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
        wanted["matmuls" if one.matmul else one.part] += one.times * one.moved
    moved = {kind: sum(one.moved for one in of) for kind, of in by_kind(listed).items()}
    kinds = ("matmuls", "residual", *KINDS)
    return {kind: (wanted[kind], moved[kind]) for kind in kinds}, moved[REST] / sum(moved.values())


def timed(
    step: Callable[[], object], core: Core, rounds: int = 10
) -> tuple[dict[str, tuple[int, float, float]], float, float]:
    """Calls, predicted and measured seconds by kind, of the quickest run under the meter; seconds
    of the quickest without it; and those of its FLOP at the best rate that was seen meanwhile.
    """
    runs, least, best = [], float("inf"), core.peak
    for _ in range(rounds):
        runs.append(kernels_of(step, clock=time.process_time))
        start = time.process_time()
        step()
        least = min(least, time.process_time() - start)
        best = max(best, *rates.matmul_rates([(n, n, n) for n in SIDES[-2:]], repeat=1))
    best = max(best, *(one.flop / one.seconds for run in runs for one in run if one.flop))
    core = core._replace(squares=core.squares | {max(SIDES): best})
    listed = min(runs, key=lambda run: sum(one.seconds for one in run))
    kinds = {
        kind: (len(of), sum(map(core.foreseen, of)), sum(one.seconds for one in of))
        for kind, of in sorted(by_kind(listed).items())
    }
    return kinds, least, sum(one.flop for one in listed) / best


def rows(kinds: dict[str, tuple[int, float, float]], step: float, ideal: float) -> list[list[Any]]:
    """A table of what `timed` gives, with the step and its share of the peak at the end."""
    calls, whole, _ = (sum(column) for column in zip(*kinds.values(), strict=True))
    lines = kinds | {"the step": (calls, whole, step)}
    shown = [
        [kind, n, f"{1e3 * a:.1f} ms", f"{1e3 * b:.1f} ms", b / a]
        for kind, (n, a, b) in lines.items()
    ]
    return [
        *shown,
        ["its share of the peak", "", f"{ideal / whole:.0%}", f"{ideal / step:.0%}", ""],
    ]
