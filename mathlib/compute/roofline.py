"""The roofline: what a device does in a second, bound by its arithmetic or by its memory.

I intensity: FLOP for each byte that is read from memory or written to it
X FLOP/s of a device in matmuls · W bandwidth of its memory
r, i, o rows, inputs and outputs of a matmul · e bytes of a number

An operation takes the larger of two times, FLOP over X and bytes over W.
"""

from collections.abc import Iterable

from mathlib.checks import InputError, ceil_div, instance, listed, non_negative, positive, whole
from mathlib.parts import Parts, exact_sum
from mathlib.records import dataclass

# rows and columns of results that a processor of a GPU computes at a time: of cublasLtMatmulTile_t
TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))


@dataclass(frozen=True)
class Operation:
    """A matmul, or a pass over numbers that multiplies no matrices: one kernel, or a few."""

    name: str
    part: str  # of the model: mlp, attention core, norms, ...
    flop: float
    moved: float  # bytes read and written
    times: float = 1  # how often it is done
    matmul: bool = True  # a matmul; other arithmetic is counted roughly, and is no FLOP
    kernels: int = 1  # that do it each time

    @property
    def intensity(self) -> float:
        """FLOP for each byte."""
        return self.flop / self.moved

    def seconds(self, peak: float, bandwidth: float, launch: float = 0) -> float:
        """Of all its times; only matmuls have a claim on the peak."""
        flop = self.flop if self.matmul else 0
        one = seconds(flop=flop, moved=self.moved, peak=peak, bandwidth=bandwidth)
        return self.times * (one + self.kernels * launch)


def intensity(
    *,
    rows: int,
    inner: int,
    columns: int,
    bytes_per_element: float = 2,
) -> float:
    """I = 2 r i o / (e (r i + i o + r o)): each of the three matrices is moved once.

    With r = i = o it is 2 r / (3 e); with one row less than 2 / e, however large the
    weight (operational intensity in Williams, Waterman and Patterson 2009).

    Chapter: roofline (eq-intensity)
    """
    r, i, o = whole("rows", rows), whole("inner", inner), whole("columns", columns)
    e = positive("bytes_per_element", bytes_per_element)
    return 2 * r * i * o / (e * (r * i + i * o + r * o))


def ridge(*, peak: float, bandwidth: float) -> float:
    """X / W: the intensity from which on memory is fast enough, in FLOP for each byte.

    Chapter: roofline (eq-ridge)
    """
    return positive("peak", peak) / positive("bandwidth", bandwidth)


def attainable(*, intensity: float, peak: float, bandwidth: float) -> float:
    """min(X, I W), in FLOP/s: the roof above an intensity (Williams et al. 2009).

    Chapter: roofline (eq-roof)
    """
    X, W = positive("peak", peak), positive("bandwidth", bandwidth)
    return min(X, non_negative("intensity", intensity) * W)


def seconds(*, flop: float, moved: float, peak: float, bandwidth: float) -> float:
    """max(F / X, bytes / W): arithmetic and traffic go on at the same time, and one is done last.

    Chapter: roofline (eq-larger)
    """
    work = non_negative("flop", flop) / positive("peak", peak)
    return max(work, non_negative("moved", moved) / positive("bandwidth", bandwidth))


def in_turn(*, flop: float, moved: float, peak: float, bandwidth: float) -> float:
    """F / X + bytes / W: the same if nothing went on at the same time, at most twice as long.

    With the shares of X and W that a program reaches, it is what the planner takes for a matmul:
    a small one reaches less of the peak than a large one, without a second constant.

    Chapter: planning
    """
    work = non_negative("flop", flop) / positive("peak", peak)
    return work + non_negative("moved", moved) / positive("bandwidth", bandwidth)


def rows_to_ridge(
    *, inner: int, columns: int, peak: float, bandwidth: float, bytes_per_element: float = 2
) -> float:
    """Rows from which on a matmul is bound by arithmetic: e R i o / (2 i o - e R (i + o)) with the
    ridge R; about e R / 2 for a large weight. Refused where no number of rows is enough.

    Chapter: roofline (eq-rows)
    """
    i, o = whole("inner", inner), whole("columns", columns)
    need = positive("bytes_per_element", bytes_per_element) * ridge(peak=peak, bandwidth=bandwidth)
    spare = 2 * i * o - need * (i + o)
    if spare <= 0:
        raise InputError(
            f"inner = {i}, columns = {o}: too narrow for a ridge of {need:.4g} FLOP a number; "
            "expected a larger weight"
        )
    return need * i * o / spare


def filled(*, rows: int, columns: int, processors: int) -> float:
    """Share of a device that works on a matmul: its r o results are distributed in tiles to the
    processors, round by round, and the last round is seldom full. The best of TILES counts
    (NVIDIA 2023, Matrix Multiplication Background User's Guide, 3.2, wave quantization).

    Chapter: roofline
    """
    r, o = whole("rows", rows), whole("columns", columns)
    at_once = whole("processors", processors)

    def share(height: int, width: int) -> float:
        rounds = ceil_div(ceil_div(r, height) * ceil_div(o, width), at_once)
        return r * o / (rounds * at_once * height * width)

    return max(share(*tile) for tile in TILES)


def time(
    operations: Iterable[Operation],
    *,
    peak: float,
    bandwidth: float,
    launch: float = 0,
) -> Parts:
    """Seconds of operations one after the other, by part of the model: the sum over
    operations of the larger of two times.

    launch: seconds that a kernel takes even if it has nothing to do.

    Chapter: roofline (eq-sum)
    """
    X, W = positive("peak", peak), positive("bandwidth", bandwidth)
    idle = non_negative("launch", launch)
    found: dict[str, list[float]] = {}
    for one in listed("operations", operations):
        spent = instance("operations", one, Operation).seconds(X, W, idle)
        found.setdefault(one.part, []).append(spent)
    sums = {part: exact_sum(of) for part, of in found.items()}
    return Parts("Time by part", "second", sums)


def totals(operations: Iterable[Operation]) -> Parts:
    """FLOP of the matmuls among some operations, by part of the model.

    Chapter: roofline
    """
    found: dict[str, list[float]] = {}
    for one in listed("operations", operations):
        if instance("operations", one, Operation).matmul:
            found.setdefault(one.part, []).append(one.flop * one.times)
    return Parts("FLOP by part", "FLOP", {part: exact_sum(of) for part, of in found.items()})
