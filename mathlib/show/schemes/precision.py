"""Schemes of the precision chapter: the bits of a number in several types, gradients against the
range of a type, and a step in mixed precision.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite, isnan, log2

from mathlib.memory import bits
from mathlib.memory.precision import NumberType, number_type
from mathlib.show import says
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.kit.sheet import Sheet
from mathlib.show.roles import ROLES, SPARE, Look
from mathlib.show.tables import Shown

FIELDS: dict[str, Look] = {"sign": SPARE[3], "exponent": SPARE[1], "mantissa": SPARE[0]}
TYPES = ("fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2")
ZONES: dict[str, Look] = {
    "normal": ROLES["gradients"],
    "subnormal, fewer bits": ("#f3c9b3", "."),
    "zero": ROLES["idle"],
}
STEP = (
    "Matmuls run on 16-bit copies, sums and the update on 32-bit numbers. The loss is multiplied "
    "before backward, and the gradients are divided after it."
)


def pattern(value: float, dtype: str) -> list[tuple[str, str]]:
    """The bits of a number as (field, digit), from the left.

    Chapter: precision (eq-value)
    """
    kind, found = number_type(dtype), bits.encode(value, dtype)
    wide = kind.sign + kind.exponent + kind.mantissa
    return list(zip(fields(kind), f"{found:0{wide}b}", strict=True))


def fields(kind: NumberType) -> list[str]:
    """What each bit is for, from the left."""
    named = ("sign", kind.sign), ("exponent", kind.exponent), ("mantissa", kind.mantissa)
    return [name for name, count in named for _ in range(count)]


def layouts(
    *values: float, types: Sequence[str] = TYPES, caption: str = "", name: str = ""
) -> Shown:
    """The bits of numbers in each of several types, and what the type makes of them."""
    pairs = [(value, dtype) for value in values for dtype in types]
    kept = ", ".join(f"{t} {shown(bits.rounded(value, t))}" for value, t in pairs)
    return figure(partial(_drawn, pairs=pairs), caption=caption or f"{kept}.", name=name)


def shown(value: float) -> str:
    """A number with the digits that tell neighbours apart."""
    return "no number" if isnan(value) else says.typeset(f"{value:.9g}")


def drawn(width: float, value: float, types: Sequence[str]) -> str:
    return _drawn(width, [(value, dtype) for dtype in types])


def _drawn(width: float, pairs: Sequence[tuple[float, str]]) -> str:
    said = ", ".join(dict.fromkeys("no number" if isnan(v) else shown(v) for v, _ in pairs))
    page = Canvas(width, f"The bits of {said}")
    page.bottom = page.legend(list(FIELDS.items()), page.bottom)
    cell = min(19.0, (width - 4) / max(len(pattern(value, t)) for value, t in pairs))
    rows = []
    for value, dtype in pairs:
        found = pattern(value, dtype)
        head = page.words(f"{dtype}: {shown(bits.rounded(value, dtype))}", bold=True)
        looks = [[FIELDS[field] for field, _ in found]]
        digits = [[digit for _, digit in found]] if cell > 8 else []
        rows.append(
            page.stacked(
                head, page.grid(looks, cell=cell, high=20, texts=digits), gap=4, align="start"
            )
        )
    page.at(page.stacked(*rows, gap=12, align="start"), 1, page.bottom + 10)
    return page.done(
        ". ".join(
            f"{t}: {''.join(d for _, d in pattern(value, t))}, {shown(bits.rounded(value, t))}"
            for value, t in pairs
        )
    )


def drawn_in_blocks(width: float, value: float, most: float, types: Sequence[str]) -> str:
    """The bits of a number as an element of a block with a given largest number: those of the
    scale, times its own.
    """
    page = Canvas(width, f"The bits of {shown(value)} in a block")
    page.bottom = page.legend(list(FIELDS.items()), page.bottom)
    rows, told = [], []
    for dtype in types:
        kind, found = number_type(dtype), bits.block([value, most], dtype)
        element, shared = bits.decode(found.patterns[0], dtype), kind.scale or "fp32"
        scale, own = shown(found.scale), f"e{kind.exponent}m{kind.mantissa}"
        if not number_type(shared).mantissa:
            scale = "2" + str(round(log2(found.scale))).translate(says.RAISED)
        parts = (
            (pattern(found.scale, shared), f"scale of {kind.block}: {scale}"),
            (pattern(element, dtype), f"element {own}: {shown(element)}"),
        )
        head = f"{dtype}: {shown(found.values[0])}"
        left, right = (_bits_over(page, *part) for part in parts)
        matmul = page.beside(left, page.words("×"), right, gap=7, align="start")
        rows.append(page.stacked(page.words(head, bold=True), matmul, gap=4, align="start"))
        written = " × ".join(f"{''.join(d for _, d in digits)} ({said})" for digits, said in parts)
        told.append(f"{head} = {written}")
    page.at(page.stacked(*rows, gap=14, align="start"), 1, page.bottom + 10)
    return page.done(". ".join(told))


def _bits_over(page: Canvas, found: Sequence[tuple[str, str]], said: str) -> Shape:
    """Bits in the colours of their fields, and below them what they stand for."""
    looks, digits = [[FIELDS[field] for field, _ in found]], [[digit for _, digit in found]]
    grid = page.grid(looks, cell=19, high=20, texts=digits)
    return page.stacked(grid, page.words(said, small=True), gap=3, align="start")


def lines(types: Sequence[str], *, caption: str, name: str = "") -> Shown:
    """Every number of several small types from zero up, as a share of the type's largest."""
    return figure(partial(_lines, types=types), caption=caption, name=name)


def above_zero(dtype: str) -> list[float]:
    """The numbers of a small type that are not negative, read from its bits.

    Chapter: precision (eq-spacing)
    """
    found = (bits.decode(pattern, dtype) for pattern in bits.patterns(dtype))
    return sorted({x for x in found if isfinite(x) and x >= 0})


def _lines(width: float, types: Sequence[str]) -> str:
    page = Canvas(width, "The numbers of small types, from 0 to the largest")
    y, told = page.bottom + 6, []
    for dtype in types:
        numbers = above_zero(dtype)
        scale = (width - 12) / numbers[-1]
        page.text(2, y + 12, f"{dtype}: up to {shown(numbers[-1])}", bold=True)
        page.line(f"M4 {y + 36:.1f}H{width - 8:.1f}", opacity=0.5)
        marks = "".join(f"M{4 + x * scale:.1f} {y + 22:.1f}v14" for x in numbers)
        page.line(marks, colour=SPARE[0][0], width=1.6 if len(numbers) < 40 else 1)
        told.append(f"{dtype}: {len(numbers)} numbers from 0 to {shown(numbers[-1])}")
        y += 50
    page.bottom = y
    return page.done(". ".join(told))


def zone(power: int, dtype: str = "fp16") -> str:
    """What a type makes of numbers above 2**power, up to twice that: what is more than half of its
    smallest number is rounded up to it.
    """
    kind = number_type(dtype)
    if power < log2(bits.smallest(dtype)) - 1:
        return "zero"
    return "normal" if power >= log2(kind.smallest_normal) else "subnormal, fewer bits"


def gradients(
    panels: Mapping[str, Mapping[int, float]],
    dtype: str = "fp16",
    *,
    caption: str,
    name: str = "",
) -> Shown:
    """Shares of gradients by power of two, each bar in the colour of what a type makes of it."""
    return figure(partial(_gradients, panels=panels, dtype=dtype), caption=caption, name=name)


def _gradients(width: float, panels: Mapping[str, Mapping[int, float]], dtype: str) -> str:
    page = Canvas(width, f"Gradients by size, and what {dtype} makes of them")
    page.bottom = page.legend(list(ZONES.items()), page.bottom)
    low = min(min(shares) for shares in panels.values())
    high = max(max(shares) for shares in panels.values())
    wide = (width - 8) / (high - low + 1)
    most = max(max(shares.values()) for shares in panels.values())
    rows = []
    for title, shares in panels.items():
        bars = _bars(shares, range(low, high + 1), wide, 90 / most, dtype)
        head = page.words(title, bold=True, anchor="start")
        ticks = _powers(low, high, wide, dtype)
        rows.append(page.stacked(head, bars, ticks, gap=3, align="start"))
    page.at(page.stacked(*rows, gap=16, align="start"), 2, page.bottom + 8)
    told = []
    for title, shares in panels.items():
        amounts = {z: sum(s for p, s in shares.items() if zone(p, dtype) == z) for z in ZONES}
        told.append(f"{title}: " + ", ".join(f"{z} {s:.0%}" for z, s in amounts.items()))
    return page.done(". ".join(told))


def _bars(
    shares: Mapping[int, float], powers: range, wide: float, scale: float, dtype: str
) -> Shape:
    """A bar for each power of two, the tallest 90 high."""

    def draw(page: Sheet, x: float, y: float) -> None:
        for i, power in enumerate(powers):
            high = shares.get(power, 0) * scale
            if high > 0.2:
                look = ZONES[zone(power, dtype)]
                hint = f"2^{power}: {shares[power]:.1%}"
                page.rect(x + i * wide, y + 90 - high, wide * 0.86, high, look, hint)
        page.line(f"M{x:.1f} {y + 90:.1f}h{wide * len(powers):.1f}", opacity=0.6)
        for power in _edges(dtype, powers[0], powers[-1]):
            page.line(f"M{x + (power - powers[0]) * wide:.1f} {y:.1f}v96", dash="3 3", opacity=0.8)

    return Shape(wide * len(powers), 92, draw)


def _edges(dtype: str, low: int, high: int) -> list[int]:
    """The powers of two of half the smallest number, and of the smallest with all its bits, as far
    as they lie between the two.
    """
    both = bits.smallest(dtype) / 2, number_type(dtype).smallest_normal
    return [power for x in both if low <= (power := round(log2(x))) <= high]


def _powers(low: int, high: int, wide: float, dtype: str) -> Shape:
    """Powers of two under the bars: the ends, and the edges of the type."""
    ticks = sorted({low, *_edges(dtype, low, high), high})

    def draw(page: Sheet, x: float, y: float) -> None:
        for power in ticks:
            anchor = {low: "start", high: "end"}.get(power, "middle")
            at = x + (power - low + (power == high)) * wide
            page.text(
                at, y + 12, "2" + str(power).translate(says.RAISED), anchor=anchor, size=page.small
            )

    return Shape(wide * (high - low + 1), 16, draw)


def step(*, caption: str = STEP, name: str = "") -> Shown:
    """One step of mixed precision with loss scaling."""
    return figure(_step, caption=caption, name=name)


def _step(width: float) -> str:
    page = Canvas(width, "One step in mixed precision")
    kinds = ("weights", "master weights", "activations", "gradients", "main gradients")
    page.bottom = page.legend(
        [
            (said, ROLES[kind])
            for said, kind in zip(
                ("16-bit weights", "32-bit weights", "16-bit activations")
                + ("16-bit gradients", "32-bit gradients"),
                kinds,
                strict=True,
            )
        ],
        page.bottom,
    )
    wide = min(190.0, (width - 40) / 2)
    box = partial(page.box, wide=wide)
    left = [
        box("weights", note="32 bits", role="master weights"),
        box("copies", note="16 bits", role="weights"),
        box("forward", note="16-bit matmuls", role="activations"),
        box("loss × scale", note="32 bits"),
    ]
    right = [
        box("update", note="Adam, 32 bits", role="master weights"),
        box("all finite?", note="else skip the step"),
        box("gradients / scale", note="32 bits", role="main gradients"),
        box("backward", note="16-bit matmuls", role="gradients"),
    ]
    page.row(
        page.stacked(*left, gap=26),
        page.stacked(*right, gap=26),
        gap=26 if page.narrow else 48,
        above=12,
    )
    for one, other in zip(left, left[1:], strict=False):
        page.arrow(one, other)
    page.arrow(left[-1], right[-1])
    for one, other in zip(right[::-1], right[-2::-1], strict=False):
        page.arrow(one, other)
    page.arrow(right[0], left[0])
    return page.done(
        "32-bit weights are copied to 16 bits; forward; the loss times the scale; backward; "
        "gradients over the scale in 32 bits; if all are finite, the update of the 32-bit weights"
    )
