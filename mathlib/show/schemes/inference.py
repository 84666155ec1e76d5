"""Schemes of the inference chapter: what a step computes, who shares a key, and blocks."""

from collections.abc import Mapping
from functools import partial

from mathlib.checks import ceil_div, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import Look
from mathlib.show.tables import Shown

FED = (
    "A row is a token's query, a column the key that it meets. Without a cache a step computes the "
    "newest row (blue) and all others again (sand). With one it computes the newest row alone, "
    "reads the keys and values that are kept (green) and adds those of the new token (yellow)."
)
SHARED = (
    "Above the query heads of a layer, below what the cache keeps for them. Fewer key-value heads, "
    "or one latent, make the cache narrower; the queries stay as they are."
)
BLOCKS = (
    "The same memory twice, in green what sequences A, B and C keep. Above, each has room for the "
    "longest that may come, and the memory is full. Below, they take numbered blocks as they grow, "
    "and a table finds them again; only the last block of each has an empty end."
)
JUDGED = (
    "For each token the draft's probability q and the large model's p. What both have stays; what "
    "q has above p is refused; what p has above q is drawn instead."
)
CELL = 13.0
Cut = list[tuple[str, float, str | Look]]  # a strip's parts: label, amount, role


def feeding(steps: int = 3, prompt: int = 4, *, caption: str = FED, name: str = "") -> Shown:
    """The rows that some decoding steps compute, without a cache and with one."""
    sizes = {"steps": whole("steps", steps), "prompt": whole("prompt", prompt)}
    return figure(partial(_feeding, **sizes), caption=caption, name=name)


def rows_of(tokens: int, cache: bool) -> list[list[str | None]]:
    """The rows that a step with so many tokens computes: roles of cells, None for no matmul."""
    first = tokens - 1 if cache else 0
    done = ["attention values" if asks == tokens - 1 else "recompute" for asks in range(tokens)]
    return [
        [done[asks] if asked <= asks else None for asked in range(tokens)]
        for asks in range(first, tokens)
    ]


def _feeding(width: float, steps: int, prompt: int) -> str:
    page = Canvas(width, "What each step computes")
    for cache in (False, True):
        panels = []
        for step in range(1, steps + 1):
            tokens = prompt + step
            picture = page.grid(rows_of(tokens, cache), cell=CELL)
            if cache:
                kept = page.strip(
                    [("", tokens - 1, "cache"), ("", 1, "activations")],
                    wide=CELL * tokens,
                    high=CELL,
                )
                picture = page.stacked(picture, kept, gap=5)
            panels.append(page.panel(f"{tokens} tokens", picture))
        page.note("with a cache" if cache else "without a cache")
        page.row(*panels, gap=22, align="end")
    last = prompt + steps
    return page.done(
        f"with {last} tokens a step computes {last * (last + 1) // 2} matmuls without a cache, "
        f"{last} with one"
    )


def sharing(
    heads: int, kept: Mapping[str, tuple[int, int]], *, caption: str = SHARED, name: str = ""
) -> Shown:
    """Query heads and what the cache keeps for them: kind -> (heads kept, numbers a token and
    layer).
    """
    return figure(
        partial(_sharing, heads=whole("heads", heads), kept=kept), caption=caption, name=name
    )


def _sharing(width: float, heads: int, kept: Mapping[str, tuple[int, int]]) -> str:
    page = Canvas(width, "Who shares keys and values")
    most = max(numbers for _, numbers in kept.values())
    page.flow(*(_kind(page, heads, kind, *kept[kind], most) for kind in kept), gap=26)
    return page.done(", ".join(f"{kind} keeps {n} numbers" for kind, (_, n) in kept.items()))


def _kind(page: Canvas, heads: int, kind: str, few: int, numbers: int, most: int) -> Shape:
    """Query heads in a row; beneath each group of them what it shares, as wide as it is."""
    cell, gap = 15.0, 4.0
    each = heads // few
    groups = []
    for _ in range(few):
        asks = page.grid([["attention"] * each], cell=cell)
        wide = max(1.0, heads * cell * numbers / most / few)
        groups.append(page.stacked(asks, page.strip([("", 1, "cache")], wide=wide, high=14), gap=6))
    return page.panel(kind, page.beside(*groups, gap=gap), note=f"{numbers:,} numbers")


def pages(
    lengths: tuple[int, ...], block: int, reserved: int, *, caption: str = BLOCKS, name: str = ""
) -> Shown:
    """The same sequences in rows of the longest's size, and in blocks distributed as they grow."""
    sizes = {"block": whole("block", block), "reserved": whole("reserved", reserved)}
    return figure(partial(_pages, lengths=lengths, **sizes), caption=caption, name=name)


def dealt(lengths: tuple[int, ...], block: int) -> list[list[int]]:
    """The blocks of each sequence if all grow together: one after the other takes the next."""
    need = [ceil_div(length, block) for length in lengths]
    found: list[list[int]] = [[] for _ in lengths]
    number = 0
    for turn in range(max(need)):
        for mine, most in zip(found, need, strict=True):
            if turn < most:
                mine.append(number)
                number += 1
    return found


def _pages(width: float, lengths: tuple[int, ...], block: int, reserved: int) -> str:
    page = Canvas(width, "Reserved, and used")
    names = "ABCDEFGH"[: len(lengths)]
    wide, used = min(width - 60, 560.0), sum(lengths)
    lines = [
        page.strip([(name, length, "cache"), ("", reserved - length, "idle")], wide=wide, high=20)
        for name, length in zip(names, lengths, strict=True)
    ]
    page.note(f"room for the longest: {used} of {reserved * len(lengths)} rows used")
    page.column(*lines, gap=4, above=4)
    blocks = dealt(lengths, block)
    held = sum(len(mine) for mine in blocks)
    page.note(f"in blocks of {block}: {used} of {block * held} rows used, the others are free")
    each, mine = reserved // block, dict(zip(names, blocks, strict=True))
    pool = _pool(dict(zip(names, lengths, strict=True)), mine, block)
    cells = [page.strip(cell, wide=wide / each, high=20) for cell in pool]
    free = page.box("", wide=wide / each, high=20, tight=True)
    cells += [free] * (each * len(lengths) - held)
    rows = [page.beside(*cells[i : i + each], gap=0) for i in range(0, len(cells), each)]
    page.column(*rows, gap=4, above=4)
    table = "; ".join(f"{name}: {', '.join(map(str, its))}" for name, its in mine.items())
    page.note(f"table of blocks: {table}")
    return page.done(
        f"{used} tokens take {reserved * len(lengths)} rows, or in blocks {block * held}"
    )


def _pool(lengths: Mapping[str, int], blocks: Mapping[str, list[int]], block: int) -> list[Cut]:
    """The blocks in the order of their numbers, each with what of it is used."""
    found: dict[int, Cut] = {}
    for name, length in lengths.items():
        for place, number in enumerate(blocks[name]):
            full = min(block, length - place * block)
            found[number] = [(f"{name} {number}", full, "cache"), ("", block - full, "idle")]
    return [found[number] for number in sorted(found)]


def judging(p: tuple[float, ...], q: tuple[float, ...], *, name: str = "") -> Shown:
    """What becomes of a drafted token: the draft's probabilities over the large model's."""
    return figure(partial(_judging, p=p, q=q), caption=JUDGED, name=name)


def _judging(width: float, p: tuple[float, ...], q: tuple[float, ...]) -> str:
    page = Canvas(width, "What stays, what is refused, what is drawn instead")
    scale, panels = min(width - 90, 520.0), []
    for number, (large, small) in enumerate(zip(p, q, strict=True), 1):
        both = min(large, small)
        bars = []
        for letter, chance, rest, role in (
            ("q", small, "refused", "recompute"),
            ("p", large, "instead", "activations"),
        ):
            parts = [("stays", both, "cache"), (rest, chance - both, role)]
            strip = page.strip(parts, wide=scale * chance, high=20)
            bars.append(page.beside(f"{letter} = {chance:g}", strip, gap=8))
        panels.append(page.stacked(*bars, gap=3, align="start"))
        page.at(panels[-1], 4, page.bottom + (10 if number == 1 else 14))
    stays = sum(map(min, p, q))
    return page.done(
        f"of the draft {stays:.0%} stays, {1 - stays:.0%} is refused and drawn instead"
    )
