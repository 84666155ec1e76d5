"""Documents of unequal lengths in rows of equal ones: what padding wastes, and what attention
computes.

s tokens of a row
"padded": batches as they come, each as wide as its longest document. "sorted": the same by length,
so that a batch's documents are alike. "packed": first-fit decreasing, many documents in a row of s
tokens (Krell et al. 2021).
"""

from collections.abc import Sequence

from mathlib.checks import InputError, flag, listed, one_of, whole
from mathlib.compute.flops import attention_pairs

WAYS = ("padded", "sorted", "packed")


def first_fit(lengths: Sequence[int], *, room: int) -> list[list[int]]:
    """Numbers of the documents in each row: the longest first, each into the first row that has
    room for it.

    Chapter: compute
    """
    sizes, s = _sizes(lengths, room), whole("room", room)
    rows, left = list[list[int]](), list[int]()
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        place = next((row for row, free in enumerate(left) if free >= sizes[i]), len(rows))
        if place == len(rows):
            rows.append([])
            left.append(s)
        rows[place].append(i)
        left[place] -= sizes[i]
    return rows


def rows(
    lengths: Sequence[int], *, way: str, room: int, sequences: int = 1
) -> list[tuple[int, list[int]]]:
    """Width of each row, and the numbers of its documents; padded and sorted have one a row, and
    batches of some `sequences`.

    Chapter: compute
    """
    sizes, batch = _sizes(lengths, room), whole("sequences", sequences)
    if one_of("way", way, WAYS) == "packed":
        return [(int(room), row) for row in first_fit(sizes, room=room)]
    order = list(range(len(sizes)))
    if way == "sorted":
        order.sort(key=lambda i: sizes[i])
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]
    return [(max(sizes[j] for j in one), [i]) for one in batches for i in one]


def slots(lengths: Sequence[int], *, way: str, room: int, sequences: int = 1) -> dict[str, int]:
    """Places of all rows: those of tokens, and of padding, which matmuls and norms compute too.

    Chapter: compute
    """
    found = rows(lengths, way=way, room=room, sequences=sequences)
    places, tokens = sum(width for width, _ in found), sum(_sizes(lengths, room))
    return {"tokens": tokens, "padding": places - tokens}


def pairs(
    lengths: Sequence[int], *, way: str, room: int, sequences: int = 1, blocks: bool = True
) -> int:
    """Query-key pairs of a causal layer: with a mask of blocks, each document's own, s (s + 1) / 2
    summed over documents; without, all of a row, through which documents see each other. A padded
    row computes its padding, packed rows with blocks compute none.

    Chapter: compute
    """
    sizes, apart = _sizes(lengths, room), flag("blocks", blocks)
    found = rows(sizes, way=way, room=room, sequences=sequences)
    if way == "packed" and apart:
        return sum(attention_pairs(tokens=one, causal=True) for one in sizes)
    return sum(attention_pairs(tokens=width, causal=True) for width, _ in found)


def _sizes(lengths: Sequence[int], room: int) -> list[int]:
    """Lengths that fit into a row."""
    sizes = [whole("lengths", one) for one in listed("lengths", lengths)]
    if sizes and max(sizes) > whole("room", room):
        raise InputError(f"lengths: one of {max(sizes)}, expected at most room = {room}")
    return sizes
