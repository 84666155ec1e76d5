"""Schemes of the attention core: what one query meets, and which scores a mask, tiles and a window
keep.
"""

from functools import partial

from mathlib.checks import InputError, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas
from mathlib.show.schemes.compute import line, matmul
from mathlib.show.tables import Shown

QUERY = (
    "A token's query meets the key of every token, and its scores the value of every token: work "
    "that no weight takes part in."
)
WIDTH, KEYS = 3, 6  # cells drawn for d numbers of a head, s keys


def one_query(*, caption: str = QUERY, name: str = "") -> Shown:
    """The two matmuls of the attention core, for one token and one head."""
    return figure(_one_query, caption=caption, name=name)


def _one_query(width: float) -> str:
    page = Canvas(width, "One query of one head")
    q = ("q", 1, WIDTH, "query", "", "d")
    keys = ("keysᵀ", WIDTH, KEYS, "key", "d", "s")
    scores = ("scores", 1, KEYS, "attention scores", "", "s")
    values = ("values", KEYS, WIDTH, "value", "s", "d")
    said = ("output", 1, WIDTH, "activations", "", "d")
    page.column(
        line(page, matmul(page, q, keys, scores), "With all keys", "a score for each", "2 s d"),
        line(page, matmul(page, scores, values, said), "With all values", "one sum", "2 s d"),
        gap=10,
        align="start",
    )
    page.note("d = h / a numbers in a head: 4 s d FLOP, and over all a heads 4 s h")
    return page.done(
        "A query of d numbers times s keys gives s scores, which times s values give d numbers. "
        "Each matmul takes 2 s d operations"
    )


def causal_mask(*, tokens: int = 8, tile: int = 2, caption: str = "", name: str = "") -> Shown:
    """The scores of one sequence: all of them, those that a causal mask keeps, and the tiles that
    a kernel computes which skips the rest.
    """
    s, side = whole("tokens", tokens), whole("tile", tile)
    if s % side:
        raise InputError(f"tile = {side}: does not divide tokens = {s}")
    kinds = (
        ("All pairs", "what the program computes", lambda q, k: True),
        ("Pairs that count", "no token looks ahead", lambda q, k: k <= q),
        (
            "Tiles",
            f"{side} by {side}, none where all is masked",
            lambda q, k: k // side <= q // side,
        ),
    )
    sizes = {title: sum(kept(q, k) for q in range(s) for k in range(s)) for title, _, kept in kinds}
    said = caption or (
        f"Of {sizes['All pairs']} scores the mask keeps {sizes['Pairs that count']}; a kernel that "
        f"works in tiles of {side} by {side}, and skips those in which all are masked, computes "
        f"{sizes['Tiles']}."
    )
    return figure(partial(_scores, tokens=s, kinds=kinds, sizes=sizes), caption=said, name=name)


def window(*, tokens: int = 12, nearest: int = 4, caption: str = "", name: str = "") -> Shown:
    """The scores kept in a layer that sees all before a token, and in one that has a window."""
    s, w = whole("tokens", tokens), whole("nearest", nearest)
    kinds = (
        ("A full layer", "a token sees all before it", lambda q, k: k <= q),
        (f"A window of {w}", f"itself and {w - 1} before it", lambda q, k: 0 <= q - k < w),
    )
    sizes = {title: sum(kept(q, k) for q in range(s) for k in range(s)) for title, _, kept in kinds}
    full, near = sizes.values()
    said = caption or (
        f"Of {s * s} scores a full layer keeps {full}, one with a window of {w} tokens {near}; "
        "with longer sequences the first grows with the square of their length."
    )
    draw = partial(_scores, tokens=s, kinds=kinds, sizes=sizes)
    return figure(draw, caption=said, name=name)


def _scores(width: float, tokens: int, kinds: tuple, sizes: dict[str, int]) -> str:
    page = Canvas(width, f"Scores of {tokens} tokens")
    panels = []
    for title, note, kept in kinds:
        cells = page.matrix(
            "",
            rows=tokens,
            columns=tokens,
            role="attention scores",
            row_label="queries",
            column_label="keys",
            filled=kept,
            cell=13 if page.narrow else 15,
        )
        panels.append(page.panel(f"{title}: {sizes[title]}", cells, note=note))
    page.flow(*panels)
    return page.done(
        ". ".join(
            f"{title}: {n}, {note}"
            for (title, note, _), n in zip(kinds, sizes.values(), strict=True)
        )
    )
