"""Operations of a step beneath the roof of an H100, and 55 published matmuls beside it.

r, i, o rows, inputs and outputs of a matmul · s tokens of a sequence
"""

import statistics
from typing import Any

from mathlib import specs
from mathlib.compute import operations, roofline

H100, LLAMA = specs.find_device("h100-sxm"), specs.find_model("llama3-8b")
RATES = {"peak": H100.half, "bandwidth": H100.memory_bandwidth}
RIDGE = roofline.ridge(**RATES)
PROCESSORS = 132
DOWN = {"inner": 14_336, "columns": 4096}  # the last matmul of Llama 3 8B's MLP

PUBLISHED = specs.table("rates")
FIRST, LATER = (PUBLISHED["hopper-matmuls"][which] for which in ("shapes", "later"))
BEST = {name: PUBLISHED["best-matmul"][name] for name in ("a100-80gb", "h100-sxm")}
LEAST = min(2 * r * i * o / x for r, i, o, x in FIRST)  # seconds
SMALL = next(x for *sides, x in FIRST if sides == [512, 256, 256])
WAYS: dict[str, dict[str, float]] = {  # the second is what a correction adds to the first
    "data sheet": {},
    "plus 5.9 µs each": {"least": LEAST},
    "and at most 792 TFLOP/s": {"least": LEAST, "peak": BEST["h100-sxm"]},
    "and tiles, in rounds": {"least": LEAST, "peak": BEST["h100-sxm"], "tiles": True},
}


def attention(tokens: int, kernel: str) -> float:
    """FLOP for each byte that attention of Llama 3 8B moves forward, its softmax included."""
    asked: dict[str, Any] = {"attention": kernel, "way": "forward", "causal": True}
    done = operations.layer(LLAMA.but(context=tokens), **asked)
    core = [one for one in done if one.part in ("attention core", "softmax")]
    flop = sum(one.times * one.flop for one in core if one.matmul)
    return flop / sum(one.times * one.moved for one in core)


def by_length() -> dict[str, list[tuple[int, float]]]:
    """The same from 128 to 32,768 tokens."""
    ways = {"FlashAttention": "flash", "scores written": "standard"}
    lengths = [128 * 2**k for k in range(9)]
    return {said: [(s, attention(s, kernel)) for s in lengths] for said, kernel in ways.items()}


def kinds() -> dict[str, float]:
    """FLOP for each byte of what a step of Llama 3 8B at 4,096 tokens consists of, and a token's
    matmul in decoding.
    """
    asked: dict[str, Any] = {"attention": "flash", "fused": False, "way": "forward"}
    done = {one.name: one for one in operations.layer(LLAMA, tokens=4096, **asked)}
    (update,) = operations.adam(parameters=1)
    return {
        "matmul with a weight, 4,096 tokens": done["down"].intensity,
        "attention, FlashAttention": attention(4096, "flash"),
        "attention, scores written to memory": attention(4096, "standard"),
        "norm": done["norm"].intensity,
        "residual addition": done["residual"].intensity,
        "Adam's update": update.intensity,
        "decoding: the same matmul, one token": roofline.intensity(rows=1, **DOWN),
    }


def points(of: list[tuple[int, int, int, float]]) -> list[tuple[str, float, float]]:
    """What, intensity, and the published FLOP/s."""
    return [
        (f"{r:,} × {i:,} × {o:,}", roofline.intensity(rows=r, inner=i, columns=o), x)
        for r, i, o, x in of
    ]


def foreseen(
    r: int, i: int, o: int, peak: float = H100.half, least: float = 0, tiles: bool = False
) -> float:
    """FLOP/s of a matmul, if it takes `least` seconds more and, with `tiles`, only so many
    processors as have one.
    """
    flop = 2 * r * i * o
    moved = flop / roofline.intensity(rows=r, inner=i, columns=o)
    share = roofline.filled(rows=r, columns=o, processors=PROCESSORS) if tiles else 1
    spent = roofline.seconds(
        flop=flop, moved=moved, peak=share * peak, bandwidth=H100.memory_bandwidth
    )
    return flop / (spent + least)


def too_high(of: list[tuple[int, int, int, float]], **how: Any) -> tuple[float, float, float]:
    """Foreseen over published rate: median, least, most."""
    off = [foreseen(r, i, o, **how) / x for r, i, o, x in of]
    return statistics.median(off), min(off), max(off)


def corrected() -> list[list[str]]:
    """Each way and its median, least and most, of the first matmuls and of the later ones."""
    rows = []
    for what, how in WAYS.items():
        found = [too_high(of, **how) for of in (FIRST, LATER)]
        cells = [[f"{middle:.2f}", f"{low:.2f} to {high:.2f}"] for middle, low, high in found]
        rows.append([what, *cells[0], *cells[1]])
    return rows


def of_scores(tokens: int = 2**20) -> float:
    """Share of the peak that the matmul of queries with keys can reach, if scores are written."""
    done = operations.layer(LLAMA.but(context=tokens), attention="standard", way="forward")
    (at,) = (one.intensity for one in done if one.name == "scores")
    return roofline.attainable(intensity=at, **RATES) / H100.half
