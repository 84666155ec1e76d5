"""Our all-reduces, each with the name of its formula."""

import functools

from mathlib.parallel import collectives as own

ALL_REDUCE = {
    "naive ring": (own.naive_ring_all_reduce, "ring"),
    "ring": (own.ring_all_reduce, "ring"),
    "tree": (own.tree_all_reduce, "tree"),
    "halving-doubling": (own.halving_doubling_all_reduce, "halving-doubling"),
    "far halving-doubling": (
        functools.partial(own.halving_doubling_all_reduce, nearest_first=False),
        "halving-doubling",
    ),
    "star": (own.star_all_reduce, "naive"),
}
