"""Experiments of the precision chapter: a number's bits in every type, and a sum of many steps."""

from fractions import Fraction
from math import inf, isfinite, isnan

from mathlib.checks import InputError
from mathlib.memory import bits, rounded_sums
from mathlib.memory.precision import number_type
from mathlib.show import plot, says
from mathlib.show.experiments import Choice, Line, experiment
from mathlib.show.figures import both
from mathlib.show.schemes.precision import drawn, drawn_in_blocks, shown
from mathlib.show.tables import html_table

BLOCKS = {f"blocks, the largest of which is {most}": float(most) for most in (1, 100)}
FAMILIES = {
    "16 and 32 bits": ("fp32", "tf32", "fp16", "bf16"),
    "8 bits": ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"),
    "6 and 4 bits": ("fp6_e2m3", "fp6_e3m2", "fp4_e2m1"),
    "scales, whole numbers and nf4": ("e8m0", "int8", "int4", "nf4"),
    **dict.fromkeys(BLOCKS, ("mxfp8", "mxfp6", "mxfp4", "nvfp4")),
    "64 bits": ("fp64",),
}
HEADS = ["type", "becomes", "off by", "spacing there", "largest"]
LETTERS = "0123456789.-+einfa"
SMALLEST, LARGEST = 1e-45, 1e39
TRIED = (  # that readers type first; of each the beginnings, too, as they are on the way
    *("0.2", "0.25", "0.3", "0.5", "0.01", "0.001", "0.3333", "0.6667", "1.1", "1.5", "2.5"),
    *("3.14", "3.14159", "10", "16", "100", "127", "128", "240", "255", "256", "257", "448", "449"),
    *("480", "1000", "1024", "2048", "2049", "57344", "65504", "65505", "65520", "1e-8", "1e-7"),
    *("1e-5", "6e-8", "1e5", "1e38", "-0.1", "-1", "-65504", "inf", "-inf", "nan"),
)
BEGUN = tuple(dict.fromkeys(text[:i] for text in TRIED for i in range(1, len(text) + 1)))


def number_of(text: str) -> float:
    """What a reader typed, as a number."""
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text!r} is no number: expected one like 0.1, -65504 or 1e-8") from None
    if isfinite(value) and value and not SMALLEST <= abs(value) <= LARGEST:
        raise InputError(f"{text!r}: expected 0, or a size from {SMALLEST:g} to {LARGEST:g}")
    return value


@experiment(
    "bits",
    "The bits of a number",
    Line("text", "A number", LETTERS, 14, "0.1", BEGUN),
    Choice("family", "In types of", tuple((name, name) for name in FAMILIES), "16 and 32 bits"),
    code=(bits.encode, bits.decode, bits.block),
)
def bit_patterns(text: str, family: str) -> str:
    value, types = number_of(text), FAMILIES[family]
    if family in BLOCKS:
        return _in_blocks(text, BLOCKS[family], types)
    exactly = Fraction(text) if isfinite(value) else value  # what was typed: fp64 has no 0.1 either
    kept = {dtype: bits.rounded(value, dtype) for dtype in types}
    rows = [HEADS]
    for dtype, now in kept.items():
        kind = number_type(dtype)
        space = bits.spacing(now, dtype) if kind.exponent and isfinite(now) else inf
        rows.append(
            [
                dtype,
                shown(now),
                _off(exactly, now),
                says.plain(space) if space < inf else "–",
                says.plain(kind.largest if kind.exponent else bits.rounded(inf, dtype)),
            ]
        )
    exact = [dtype for dtype, now in kept.items() if now == exactly]
    none = [d for d in types if value <= 0 and not number_type(d).sign]
    gone = [d for d, now in kept.items() if isfinite(value) and not isfinite(now) and d not in none]
    zero = [d for d, now in kept.items() if value and now == 0]
    if isnan(value):
        say = "<b>nan</b> is no number, and each type that can say so has patterns for it"
    else:
        say = f"<b>{shown(value)}</b> is exact in {_named(exact)}"
    say += f", too large for {_named(gone)}" if gone else ""
    say += f", no number in {_named(none)}, whose numbers are above 0" if none else ""
    say += f", and becomes 0 in {_named(zero)}" if zero else ""
    picture = both(lambda width: drawn(width, value, types))
    told = html_table(rows, "What each type makes of it")
    return f'<p class="mlx-say">{say}.</p>{picture}{told}'


def _in_blocks(text: str, most: float, types: tuple[str, ...]) -> str:
    """A number as an element of a block: its own bits, and those of the scale that it shares."""
    value = number_of(text)
    if not isfinite(value):
        raise InputError(f"{text!r}: a block needs finite numbers")
    largest, exactly, rows, kept = max(abs(value), most), Fraction(text), [HEADS], {}
    for dtype in types:
        found = bits.block([value, largest], dtype)
        element, now = bits.decode(found.patterns[0], dtype), found.values[0]
        step = says.plain(found.scale * bits.spacing(element, dtype)) if found.scale else "–"
        top = says.plain(found.scale * number_type(dtype).largest)
        rows.append([dtype, shown(now), _off(exactly, now), step, top])
        kept[dtype] = now
    exact = [dtype for dtype, now in kept.items() if now == exactly]
    zero = [dtype for dtype, now in kept.items() if value and now == 0]
    where = f"in a block whose largest number is {shown(largest)}"
    where = "as the largest number of its block" if largest == abs(value) else where
    say = f"<b>{shown(value)}</b> {where} is exact in {_named(exact)}"
    say += f", and becomes 0 in {_named(zero)}" if zero else ""
    say += ". A tensor in nvfp4 has one more scale, which is 1 here"
    picture = both(lambda width: drawn_in_blocks(width, value, largest, types))
    return f'<p class="mlx-say">{say}.</p>{picture}{html_table(rows, "What each type makes of it")}'


def _named(types: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(types[:-1]), *types[-1:]))) or "none of them"


def _off(value: Fraction | float, now: float) -> str:
    if value == now:
        return "0"
    if not isfinite(now) or not isfinite(value) or not value:
        return "–"
    return says.percent(abs(float(Fraction(now) / Fraction(value) - 1)))


@experiment(
    "steps",
    "A sum of many small steps",
    Choice("dtype", "Type", tuple((t, t) for t in ("bf16", "fp16", "fp8_e4m3", "fp32")), "bf16"),
    Choice(
        "step", "Step", tuple((f"{s:g}", s) for s in (0.0001, 0.001, 0.01, 0.1)), 0.001, slider=True
    ),
    Choice(
        "count", "Steps", tuple((f"{n:,}", n) for n in (100, 300, 1000, 3000)), 1000, slider=True
    ),
    Choice("start", "From", tuple((f"{s:g}", s) for s in (0.0, 0.1, 1.0, 10.0)), 0.0),
    Choice("rounding", "Rounding", tuple((r, r) for r in rounded_sums.ROUNDINGS), "nearest"),
    code=(rounded_sums.add_up, rounded_sums.stalls_at),
    main=5,
)
def small_steps(dtype: str, step: float, count: int, start: float, rounding: str) -> str:
    sums = rounded_sums.add_up(step=step, steps=count, dtype=dtype, start=start, rounding=rounding)
    wanted, found = start + step * count, sums[-1]
    last = next((i for i in range(count, 0, -1) if sums[i] != sums[i - 1]), 0)
    said = f"<b>{count:,} steps of {step:g} make {shown(found)}</b> instead of {shown(wanted)}. "
    if last < count * 0.9:
        said += f"After step {last:,} the sum has not moved again. "
    stall = rounded_sums.stalls_at(step, dtype)
    said += f"Rounded to nearest, such a sum in {dtype} stands still from {says.plain(stall)} on."
    marks = sorted({round(count * i / 39) for i in range(40)})
    curves = {
        "exact": [(i, start + step * i) for i in marks],
        dtype: [(i, sums[i]) for i in marks],
    }
    picture = plot.lines(
        curves,
        title=f"The running sum in {dtype}",
        x_title="steps",
        y_title="sum",
        show_x=says.short,
        show_y=says.short,
    )
    return f'<p class="mlx-say">{said}</p>{picture}'
